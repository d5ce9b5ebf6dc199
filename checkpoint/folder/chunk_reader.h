// These functions read runs of chunks and check their checksums, a few runs at a time. No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "checkpoint/folder/load_plan.h"
#include "checkpoint/format/manifest.h"
#include "storage/object_store.h"

namespace composer {

// Returns the key of one of the manifest's files.
std::string DataFileKey(const std::string& checkpoint, const Manifest& manifest, size_t file);

// Reads the bytes from the first chunk's begin to the last one's end; `into` must have exactly that size.
absl::Status ReadRun(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                     absl::Span<const ChunkRead> run, absl::Span<char> into);

// Returns kDataLoss, with the file and the tensor, when the chunk's bytes are not those that were written.
absl::Status CheckChunk(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                        const ChunkRead& chunk, absl::string_view bytes);

// Calls work(i, buffer) for i in [0, count) on up to `threads` threads, this one included; each has a buffer of its own
// that work may resize. After an error no new i is started, and the error of the lowest such i is returned. Exceptions
// become kInternal, std::bad_alloc becomes kResourceExhausted.
absl::Status ForEachRun(size_t count, int threads, absl::FunctionRef<absl::Status(size_t, std::string& buffer)> work);

// Returns the number of threads that help for this many bytes: one for few, kReaders for many.
int ReaderThreads(int64_t bytes);

}  // namespace composer

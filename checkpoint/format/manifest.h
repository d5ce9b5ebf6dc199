// The manifest is what a checkpoint is made of, as text that people can read. Its presence is the commit.
// docs/checkpoint_format.md describes the format, member by member. No torch. Fuzzed: tests/fuzz/manifest_fuzz.cc.
//
// The manifest ends with a checksum of all bytes before it; it holds a checksum for each file's header and for each
// tensor's bytes, and safetensors files have no other bytes. Hence one flipped bit anywhere in a checkpoint is found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/format/checkpoint_name.h"

namespace composer {

// The bytes under one checksum: a reader of a part of a large box reads and verifies only these pieces of it.
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;

// A Box is a part of a tensor that lies in one file in one piece: the whole tensor, or an axis-aligned box of it.
struct Box {
  std::vector<int64_t> offset;  // in the tensor; one number per dimension
  std::vector<int64_t> shape;
  int file = 0;       // index into Manifest::files
  int64_t begin = 0;  // bytes [begin, end) of that file
  int64_t end = 0;
  std::vector<uint64_t> xxh3;  // of each kChunkBytes of them, the last chunk being the rest; at least one

  bool operator==(const Box&) const = default;
};

struct TensorEntry {
  std::string name;
  std::string dtype;           // safetensors' name: F32, BF16, I64 …
  std::vector<int64_t> shape;  // of the whole tensor
  std::vector<Box> boxes;

  bool IsWhole(const Box& box) const { return box.shape == shape; }
  bool operator==(const TensorEntry&) const = default;
};

struct FileEntry {
  std::string name;  // RankFileName
  int64_t bytes = 0;
  uint64_t header_xxh3 = 0;  // of the file up to its first tensor

  bool operator==(const FileEntry&) const = default;
};

struct Manifest {
  std::string run_name;
  std::string saved_at;  // RFC 3339, UTC
  CheckpointName step;
  int64_t samples = 0;  // since the run began
  int world_size = 1;   // of the run that wrote it
  std::string attempt;  // folder of the files, beside the manifest
  std::vector<FileEntry> files;
  std::vector<TensorEntry> tensors;
  std::map<std::string, std::string> small;  // key -> canonical JSON text

  int64_t TensorBytesTotal() const;
  bool operator==(const Manifest&) const = default;
};

// Returns kInvalidArgument for a name that is not valid UTF-8, or small state that is not JSON.
absl::StatusOr<std::string> SerializeManifest(const Manifest& manifest);

// Checks all that can be checked without the files, except CheckComplete. Returns kDataLoss with the reason,
// kFailedPrecondition for a version that this program does not know.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text);

// Returns kDataLoss unless no tensor or file is named twice and the boxes of each tensor fill it exactly. A rank's part
// of a manifest, as passed around during a save, need not be complete; one in a checkpoint must be.
absl::Status CheckComplete(const Manifest& manifest);

// These return the checksums of a box's bytes, chunk by chunk, and their number.
std::vector<uint64_t> ChunkChecksums(absl::string_view bytes);
inline int64_t ChunkCount(int64_t bytes) { return bytes <= kChunkBytes ? 1 : (bytes - 1) / kChunkBytes + 1; }

// Returns the box's name in its safetensors file: the tensor's name, and for a part also its offset: `w@16,0`. A file
// has many boxes of one tensor when its rank held many.
std::string BoxName(const TensorEntry& tensor, const Box& box);

// Returns `,\n"checksum":"xxh3:<16 hex>"}\n` for everything before it.
std::string ManifestTrailer(absl::string_view body);

}  // namespace composer

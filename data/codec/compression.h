// The compressions of data shards: zstd, gz, bz2, br (brotli) and snappy, as mosaicml-streaming 0.13 names them
// (`zstd`, `zstd:7`), a whole file at a time.
//
// zlib is linked; the others are loaded when they are first used, so that a machine needs only those of its data. When
// a library is missing, kUnimplemented names the Debian package. Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

enum class Codec { kZstd, kGzip, kBzip2, kBrotli, kSnappy };

struct Compression {
  Codec codec = Codec::kZstd;
  int level = 0;  // the codec's default if the text gives none; snappy has no levels
};

// Reads "zstd", "gz:9", ...; kInvalidArgument names what is allowed.
absl::StatusOr<Compression> ParseCompression(absl::string_view text);
// Returns the extension of files with this compression: "zstd", "gz", "bz2", "br" or "snappy".
std::string CompressionExtension(Codec codec);

// Returns the `size` bytes (< 2^32) that were compressed; kDataLoss when the input is damaged or has another size.
absl::StatusOr<std::string> Decompress(Codec codec, absl::string_view compressed, int64_t size);
absl::StatusOr<std::string> Compress(const Compression& compression, absl::string_view bytes);

}  // namespace composer

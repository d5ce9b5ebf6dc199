// Files of torch.save that are packed, as the Python Composer packs what save_filename names so: x.pt.gz, x.pt.lz4,
// x.pt.zst, and x.tar, x.tar.gz, x.tgz, x.tar.lz4, x.tar.zst with the file `composer_states.pt` in them.
//
// zlib is linked; lz4 and zstd are loaded when they are first needed. Fuzzed: tests/fuzz/packed_file_fuzz.cc (the tar
// reader).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/mapped_file.h"

namespace composer {

struct Packing {
  enum class Compression { kNone, kGzip, kLz4, kZstd };
  Compression compression = Compression::kNone;
  bool tar = false;

  bool IsNone() const { return !tar && compression == Compression::kNone; }
};

// Returns how a file of this name is packed. kInvalidArgument, with the way out, for what is not packed here: .bz2,
// .xz and others of Composer's.
absl::StatusOr<Packing> PackingOfName(absl::string_view path);
// Returns whether the name is x.pt, or one of those above.
bool IsTorchFileName(absl::string_view path);

// Returns the file; if its first bytes are those of gzip, lz4, zstd or tar, what is in it, in memory. kDataLoss if it
// is damaged, kResourceExhausted for what unpacks to more than a thousandfold, kInvalidArgument for bzip2 and xz, and
// an archive without one file that it could be.
absl::StatusOr<std::shared_ptr<const MappedFile>> OpenUnpacked(const std::string& path);

// Calls `write` with the descriptor of a file in memory, then appends its content, packed, to `fd`; errors name `path`.
absl::Status WritePacked(int fd, const std::string& path, const Packing& packing,
                         const std::function<absl::Status(int memory)>& write);

// Returns the bytes [begin, end) of the file in a tar archive that is Composer's, or its only ordinary one.
absl::StatusOr<std::pair<size_t, size_t>> FindInTar(absl::string_view archive);

}  // namespace composer

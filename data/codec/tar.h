// Lists the files in a tar archive that lies in memory: ustar, pax (names and sizes of any length) and GNU's. Every
// length is checked; links, folders and devices are passed over, nothing is unpacked. Source: POSIX.1-2017, pax; GNU
// tar's manual, "Basic Tar Format". Fuzzed: tests/fuzz/tar_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct TarEntry {
  std::string name;
  absl::string_view bytes;  // in the archive
};

// Returns the ordinary files in their order. kDataLoss names the byte at which the archive is damaged or cut off; an
// archive may lack the blocks of zeros at its end. kUnimplemented: sparse files, and archives in several volumes.
absl::StatusOr<std::vector<TarEntry>> ReadTar(absl::string_view archive);

}  // namespace composer

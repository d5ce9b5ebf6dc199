// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/data_fingerprint.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr int kMaxEntries = 10'000;

std::string FingerprintFolder(const std::string& path) {
  std::error_code error;
  int64_t files = 0, bytes = 0;
  int entries = 0;
  for (auto it = std::filesystem::recursive_directory_iterator(path, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    if (++entries > kMaxEntries) return absl::StrCat("folder of over ", kMaxEntries, " files");
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    ++files;
    bytes += static_cast<int64_t>(it->file_size(gone));
  }
  if (error) return absl::StrCat("not readable: ", error.message());
  return absl::StrCat("folder of ", files, " files, ", bytes, " bytes");
}

}  // namespace

std::string FingerprintData(const std::string& path) {
  if (absl::StrContains(path, "://")) return "remote";
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) return "missing";
  if (error) return absl::StrCat("not readable: ", error.message());
  if (std::filesystem::is_directory(status)) return FingerprintFolder(path);
  const uintmax_t size = std::filesystem::file_size(path, error);
  return error ? std::string("no file") : absl::StrCat("file of ", size, " bytes");
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "data/tables/arrow_loader.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {
namespace {

std::string ArrowModulePath() {
  std::error_code error;
  const std::string folder = DirName(std::filesystem::read_symlink("/proc/self/exe", error).string());
  const std::string beside = JoinPath(folder, "composer_arrow.so");
  return PathExists(beside) ? beside : JoinPath(folder, "../lib/composer_arrow.so");
}

absl::StatusOr<OpenArrowFunction*> LoadArrowOnce() {
  const std::string path = ArrowModulePath();
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // with RTLD_DEEPBIND it crashes
  if (handle == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("Parquet and Arrow files are read by Apache Arrow, and ", path, " does not load: ", dlerror(),
                     "; it is built when ./dev setup (or pip download " COMPOSER_PYARROW
                     ", unpacked into .deps/pyarrow) has fetched Arrow before cmake runs"));
  }
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(handle, "composer_arrow_version"));
  const auto open = reinterpret_cast<OpenArrowFunction* (*)()>(dlsym(handle, "composer_arrow_open"));
  if (version == nullptr || open == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a module of Composer for Arrow"));
  if (std::strcmp(version(), COMPOSER_VERSION) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of version ", version(), ", this program of ", COMPOSER_VERSION));
  }
  return open();
}

}  // namespace

absl::StatusOr<OpenArrowFunction*> LoadArrow() {
  static const auto& loaded = *new absl::StatusOr<OpenArrowFunction*>(LoadArrowOnce());
  return loaded;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/cuda_loader.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::StatusOr<void*> Open(const std::string& library, int flags) {
  void* handle = dlopen(library.c_str(), flags);
  if (handle != nullptr) return handle;
  return absl::FailedPreconditionError(
      absl::StrCat("device: gpu needs ", library, ", which does not load: ", dlerror(), "; use device: cpu"));
}

std::string ModulePath() {
  std::error_code error;
  const std::string folder = DirName(std::filesystem::read_symlink("/proc/self/exe", error).string());
  const std::string beside = JoinPath(folder, "composer_cuda.so");
  return PathExists(beside) ? beside : JoinPath(folder, "../lib/composer_cuda.so");
}

}  // namespace

absl::StatusOr<CudaModule*> LoadCuda() {
  RETURN_IF_ERROR(Open("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL).status());
  ASSIGN_OR_RETURN(void* handle, Open(ModulePath(), RTLD_NOW | RTLD_LOCAL));
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(handle, "composer_cuda_version"));
  const auto module = reinterpret_cast<CudaModule* (*)()>(dlsym(handle, "composer_cuda_module"));
  if (version == nullptr || module == nullptr)
    return absl::FailedPreconditionError(absl::StrCat(ModulePath(), " is no Composer CUDA module"));
  if (std::strcmp(version(), COMPOSER_VERSION) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(ModulePath(), " is of version ", version(), ", this program of ", COMPOSER_VERSION));
  }
  if (module()->device_count() == 0)
    return absl::FailedPreconditionError(
        "device: gpu, but this machine shows no GPU (nvidia-smi tells why); use device: cpu");
  return module();
}

}  // namespace composer

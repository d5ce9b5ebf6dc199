// Functions of a library that is loaded when it is first needed, and stays.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace composer {

class LateFunctions {
 public:
  // Loads the library `file`, which Debian has in `package`.
  LateFunctions(const char* file, const char* package)
      : file_(file), package_(package), library_(dlopen(file, RTLD_NOW)) {}

  // Fills the pointer with the library's function of this name.
  template <typename F>
  void Find(const char* name, F*& function) {
    function = library_ == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(library_, name));
    found_all_ = found_all_ && function != nullptr;
  }

  // kUnimplemented, with what to install, unless all functions were found.
  absl::Status status() const {
    if (found_all_) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("it needs ", file_, ", which is not on this machine; on Debian: apt install ", package_));
  }

 private:
  const char* file_;
  const char* package_;
  void* library_;
  bool found_all_ = true;
};

}  // namespace composer

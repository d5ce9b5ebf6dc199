// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <string>

namespace composer {

void InitLogging(absl::string_view program, int min_severity) {
  static const std::string& name = *new std::string(program);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = min_severity;
  google::InitGoogleLogging(name.c_str());
}

void EnsureLogging() {
  static const bool done = [] {
    if (!google::IsGoogleLoggingInitialized()) InitLogging("composer", /*min_severity=*/FLAGS_minloglevel);
    return true;
  }();
  (void)done;
}

}  // namespace composer

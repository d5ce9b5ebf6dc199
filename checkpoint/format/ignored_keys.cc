// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/ignored_keys.h"

#include <fnmatch.h>

#include <algorithm>

namespace composer {

bool Matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
  });
}

IgnoredKeys IgnoredKeys::WithoutStatePrefix() const {
  constexpr char kPrefix[] = "state/";
  IgnoredKeys result = *this;
  for (std::string& pattern : result.patterns_) {
    if (pattern.starts_with(kPrefix)) pattern.erase(0, sizeof(kPrefix) - 1);
  }
  return result;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/ignored_keys.h"

#include <fnmatch.h>

namespace composer {

bool Matches(const std::vector<std::string>& patterns, const std::string& name) {
  bool matches = false;
  for (const std::string& pattern : patterns) {
    const bool takes_back = pattern.starts_with('!');
    if (fnmatch(pattern.c_str() + (takes_back ? 1 : 0), name.c_str(), FNM_NOESCAPE) == 0) matches = !takes_back;
  }
  return matches;
}

IgnoredKeys IgnoredKeys::WithoutStatePrefix() const {
  constexpr char kPrefix[] = "state/";
  IgnoredKeys result = *this;
  for (std::string& pattern : result.patterns_) {
    const size_t begin = pattern.starts_with('!') ? 1 : 0;
    if (pattern.compare(begin, sizeof(kPrefix) - 1, kPrefix) == 0) pattern.erase(begin, sizeof(kPrefix) - 1);
  }
  return result;
}

}  // namespace composer

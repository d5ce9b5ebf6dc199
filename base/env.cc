// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace composer {

Environment Environment::FromProcess() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    result.Set(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

std::optional<std::string> Environment::Get(absl::string_view name) const {
  const auto it = variables_.find(std::string(name));
  if (it == variables_.end()) return std::nullopt;
  return it->second;
}

std::string Environment::GetOr(absl::string_view name, absl::string_view fallback) const {
  return Get(name).value_or(std::string(fallback));
}

void Environment::Set(absl::string_view name, absl::string_view value) {
  variables_[std::string(name)] = std::string(value);
}

void Environment::Remove(absl::string_view name) { variables_.erase(std::string(name)); }

std::vector<std::string> Environment::ToStrings() const {
  std::vector<std::string> result;
  result.reserve(variables_.size());
  for (const auto& [name, value] : variables_) result.push_back(absl::StrCat(name, "=", value));
  return result;
}

}  // namespace composer

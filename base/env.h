// A snapshot of the environment, taken once in main and handed to whoever needs it. Only this file reads the
// environment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}

  // Returns the process's current environment.
  static Environment FromProcess();

  // Returns nullopt when the variable is not set; a variable set to "" is set.
  std::optional<std::string> Get(absl::string_view name) const;
  std::string GetOr(absl::string_view name, absl::string_view fallback) const;
  void Set(absl::string_view name, absl::string_view value);
  void Remove(absl::string_view name);

  const std::map<std::string, std::string>& variables() const { return variables_; }
  // Returns "NAME=value" strings, as execve takes them.
  std::vector<std::string> ToStrings() const;

 private:
  std::map<std::string, std::string> variables_;
};

}  // namespace composer

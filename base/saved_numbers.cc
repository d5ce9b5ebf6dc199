// SPDX-License-Identifier: Apache-2.0
#include "base/saved_numbers.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/json_members.h"

namespace composer {

std::string SaveNumbers(std::initializer_list<std::pair<absl::string_view, double>> numbers) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : numbers) json[std::string(name)] = value;
  return json.dump();
}

absl::Status LoadNumbers(absl::string_view text, std::initializer_list<std::pair<absl::string_view, double*>> numbers) {
  const auto json = ParseJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError("saved state: not a JSON object");
  std::vector<double> values;
  for (const auto& [name, target] : numbers) {
    if (!TakeMember(json, std::string(name).c_str(), values.emplace_back()))
      return absl::InvalidArgumentError(absl::StrCat("saved state: ", name, " is missing or no number"));
  }
  auto value = values.begin();
  for (const auto& [name, target] : numbers) *target = *value++;
  return absl::OkStatus();
}

}  // namespace composer

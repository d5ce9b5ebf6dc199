// JSON as Python's json.dumps(..., sort_keys=True) writes it: ", " and ": " between parts, and everything outside ASCII
// escaped. Files that must be equal to the last byte need it. Numbers must be integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace composer {

inline std::string PythonJson(const nlohmann::json& json) {
  if (!json.is_structured()) return json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  std::string text(1, json.is_object() ? '{' : '[');
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (text.size() > 1) text += ", ";
    if (json.is_object()) text += PythonJson(it.key()) + ": ";
    text += PythonJson(*it);
  }
  text += json.is_object() ? '}' : ']';
  return text;
}

}  // namespace composer

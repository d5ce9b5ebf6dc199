// SPDX-License-Identifier: Apache-2.0
#include "job/config_values.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "config/effective_config.h"
#include "config/scalar.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const ConfigNode& node) {
  if (node.is_map()) {
    Json json = Json::object();
    for (const ConfigNode& child : node.children) json[child.key] = ToJson(child);
    return json;
  }
  if (node.is_list()) {
    Json json = Json::array();
    for (const ConfigNode& child : node.children) json.push_back(ToJson(child));
    return json;
  }
  if (!node.written.empty()) return node.written;
  if (node.is_null()) return nullptr;
  if (const auto whole = ParseIntScalar(node); whole.ok()) return *whole;
  if (const auto number = ParseDoubleScalar(node); number.ok()) return *number;
  if (const auto boolean = ParseBoolScalar(node); boolean.ok()) return *boolean;
  return node.scalar;
}

void Flatten(const ConfigNode& node, const std::string& path, bool is_secret, Hyperparameters& flat) {
  if (!node.is_map() && !node.is_list()) {
    flat.emplace_back(path, node.is_null() ? "null" : is_secret ? "***" : node.shown());
    return;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    const ConfigNode& child = node.children[i];
    const std::string name = node.is_map() ? child.key : absl::StrCat(i);
    const bool hide = is_secret || (node.is_map() && IsSecretKey(child.key));
    Flatten(child, path.empty() ? name : absl::StrCat(path, "/", name), hide, flat);
  }
}

}  // namespace

std::string ConfigJson(const ConfigNode* node) {
  return node == nullptr ? "null" : ToJson(*node).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Hyperparameters FlatConfig(const ConfigNode& node) {
  Hyperparameters flat;
  Flatten(node, "", false, flat);
  return flat;
}

}  // namespace composer

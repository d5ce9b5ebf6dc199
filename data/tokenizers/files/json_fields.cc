// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/files/json_fields.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

const JsonFields::Json& ObjectOrEmpty(const JsonFields::Json& json) {
  static const JsonFields::Json* const empty = new JsonFields::Json(JsonFields::Json::object());
  return json.is_object() ? json : *empty;
}

}  // namespace

JsonFields::JsonFields(const Json& json, std::string path) : json_(ObjectOrEmpty(json)), path_(std::move(path)) {
  if (!json.is_object()) Reject("", "must be a JSON object");
}

std::string JsonFields::PathOf(absl::string_view key) const {
  return absl::StrCat(path_, path_.empty() || key.empty() ? "" : ".", key);
}

void JsonFields::Reject(absl::string_view key, absl::string_view what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(PathOf(key), ": ", what));
}

const JsonFields::Json* JsonFields::Find(const char* key) {
  known_.insert(key);
  const auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

std::string JsonFields::Text(const char* key, const char* fallback) {
  const Json* value = Find(key);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  if (value != nullptr || fallback == nullptr) Reject(key, "must be a text");
  return fallback == nullptr ? "" : fallback;
}

bool JsonFields::Bool(const char* key, bool fallback) {
  const Json* value = Find(key);
  if (value != nullptr && value->is_boolean()) return value->get<bool>();
  if (value != nullptr) Reject(key, "must be true or false");
  return fallback;
}

uint64_t JsonFields::Number(const char* key, uint64_t fallback) {
  const Json* value = Find(key);
  if (value != nullptr && value->is_number_unsigned()) return value->get<uint64_t>();
  if (value != nullptr) Reject(key, "must be a whole number that is not negative");
  return fallback;
}

const JsonFields::Json* JsonFields::Child(const char* key) { return Find(key); }

absl::Status JsonFields::Done() {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : json_.items()) {
    if (known_.count(key) == 0)
      return absl::InvalidArgumentError(absl::StrCat(PathOf(key.substr(0, 100)), ": is not supported"));
  }
  return absl::OkStatus();
}

}  // namespace composer

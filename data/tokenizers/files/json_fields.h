// Reads the members of a JSON object strictly: a member of another type, and one that nobody has read, is an error that
// names it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace composer {

class JsonFields {
 public:
  using Json = nlohmann::json;
  // `path` is the object's place in its file, such as "normalizer".
  JsonFields(const Json& json, std::string path);

  std::string Text(const char* key, const char* fallback = nullptr);  // no fallback: it must be there
  bool Bool(const char* key, bool fallback);
  uint64_t Number(const char* key, uint64_t fallback);
  // Null counts as no member. Returns nullptr when there is none.
  const Json* Child(const char* key);
  void Ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  // Makes this the first error, with its place.
  void Reject(absl::string_view key, absl::string_view what);
  std::string PathOf(absl::string_view key) const;
  // Returns the first error; without one, an error for the first member that nobody has asked for.
  absl::Status Done();

 private:
  const Json* Find(const char* key);

  const Json& json_;
  const std::string path_;
  std::set<std::string> known_;
  absl::Status status_;
};

}  // namespace composer

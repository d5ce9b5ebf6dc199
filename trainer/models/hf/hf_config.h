// Reads Hugging Face's config.json strictly: a field that is not asked for is an error, since ignoring it could change
// what the weights mean. Fields that concern neither weights nor results (who wrote the file, how text is generated,
// the tokens' numbers) are known. Fuzzed: tests/fuzz/hf_config_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// An object of the file. All getters throw StatusError (core/torch_status.h), kInvalidArgument, that begins with
// "config.json: " and names the field, its value and what is allowed; null counts as not given. No torch. Threads: one.
class HfConfig {
 public:
  // kInvalidArgument: not a JSON object of at most 1 MiB.
  static absl::StatusOr<HfConfig> Parse(absl::string_view text);
  explicit HfConfig(nlohmann::json object, std::string path = "") : json_(std::move(object)), path_(std::move(path)) {}

  bool Has(const std::string& field) const;
  // Whether the field is there, null or not.
  bool Mentions(const std::string& field) const { return json_.contains(field); }
  // Sizes, 1 to 2^24.
  int64_t Size(const std::string& field, int64_t fallback);
  int64_t RequiredSize(const std::string& field);
  int64_t Int(const std::string& field, int64_t fallback, int64_t min, int64_t max);
  double Double(const std::string& field, double fallback, double min, double max);
  bool Bool(const std::string& field, bool fallback);
  std::string String(const std::string& field, const std::string& fallback);
  std::vector<std::string> Strings(const std::string& field);
  // A list of sizes, or a single one; `fallback` when not given.
  std::vector<int64_t> Sizes(const std::string& field, std::vector<int64_t> fallback);
  // A list of numbers; empty when not given.
  std::vector<double> Doubles(const std::string& field, double min, double max);
  // An object in this one; empty when not given. Its Finish is the caller's.
  HfConfig Object(const std::string& field);
  // The number of entries of an object; 0 when not given.
  int64_t Entries(const std::string& field);
  // Throws unless the field is not given or is one of the values.
  void Only(const std::string& field, const std::vector<nlohmann::json>& values);
  void Ignore(std::initializer_list<const char*> fields);

  // Throws a list of the fields that nobody asked for.
  void Finish() const;

 private:
  // Returns the value, null when not given; makes the field known.
  const nlohmann::json& Ask(const std::string& field);
  [[noreturn]] void Refuse(const std::string& field, const std::string& allowed) const;

  nlohmann::json json_;
  std::string path_;  // "rope_scaling.", or ""
  std::set<std::string> known_;
};

}  // namespace composer

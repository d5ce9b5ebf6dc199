// Tests the tables of names in a job's YAML: every name is read with every key that it has, and with no other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "config/config_map.h"
#include "config/yaml.h"

namespace composer {

struct NamedKeys {
  const char* name;                                       // in the YAML
  const char* made;                                       // name() of the result; "" where the table makes nothing
  int required;                                           // this many of the first keys have no default
  std::vector<std::pair<std::string, std::string>> keys;  // each with a value that is not its default
};

// Returns, e.g., "{callbacks: {fail_at: {rank: 3, batch: 4}}}".
inline std::string YamlOf(const std::string& section, const std::string& name,
                          const std::vector<std::pair<std::string, std::string>>& keys) {
  std::string yaml = absl::StrCat("{", section, ": {", name, ": {");
  for (const auto& [key, value] : keys) absl::StrAppend(&yaml, key, ": ", value, ", ");
  return yaml + "}}}";
}

// Returns the message of `read` for a document, "" when nothing is wrong.
template <typename Read>
std::string ErrorOf(const std::string& yaml, const Read& read) {
  const absl::StatusOr<ConfigNode> document = ParseYaml(yaml, "job.yaml");
  if (!document.ok()) return absl::StrCat("the test's own YAML is wrong: ", yaml, ": ", document.status().message());
  ConfigReader reader(*document);
  ConfigMap root = reader.root();
  read(root);
  return std::string(reader.Finish().message());
}

// Checks for each row that all keys together are valid; that each key alone is looked at (a map, or a number where a
// map belongs, is rejected by its path); that missing required keys are reported; and that others are unknown, with the
// nearest known one.
template <typename Read>
void CheckKeys(const std::string& section, const std::vector<NamedKeys>& rows, const Read& read) {
  using ::testing::HasSubstr;
  for (const NamedKeys& row : rows) {
    const std::string path = absl::StrCat(section, ".", row.name, ".");
    EXPECT_EQ(ErrorOf(YamlOf(section, row.name, row.keys), read), "") << row.name;
    for (size_t i = 0; i < row.keys.size(); ++i) {
      auto keys = row.keys;
      keys[i].second = absl::StartsWith(keys[i].second, "{") ? "7" : "{x: 1}";
      const std::string error = ErrorOf(YamlOf(section, row.name, keys), read);
      EXPECT_THAT(error, HasSubstr(absl::StrCat(path, keys[i].first, ": expected"))) << row.name;
      EXPECT_FALSE(absl::StrContains(error, "unknown key")) << error;
      keys = row.keys;
      keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(i));
      const std::string missing = i < static_cast<size_t>(row.required) ? row.keys[i].first + ": is required" : "";
      EXPECT_THAT(ErrorOf(YamlOf(section, row.name, keys), read), HasSubstr(missing)) << row.name;
      keys.emplace_back(row.keys[i].first + "x", "1");
      EXPECT_THAT(ErrorOf(YamlOf(section, row.name, keys), read),
                  HasSubstr(absl::StrCat(path, row.keys[i].first, "x: unknown key (did you mean `")));
    }
    auto keys = row.keys;
    keys.emplace_back("no_such_thing", "1");
    EXPECT_THAT(ErrorOf(YamlOf(section, row.name, keys), read), HasSubstr(path + "no_such_thing: unknown key"));
  }
}

// Returns only the first `required` keys of the row.
inline std::string MinimalYaml(const std::string& section, const NamedKeys& row) {
  return YamlOf(section, row.name, {row.keys.begin(), row.keys.begin() + row.required});
}

inline std::vector<std::string> NamesOfRows(const std::vector<NamedKeys>& rows) {
  std::vector<std::string> names;
  for (const NamedKeys& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace composer

// Gives a plugin the keys of a map in a job's YAML: typed, with defaults and ranges, and errors like those of built-in
// keys.
//
//   const int64_t width = config.Int("width", 64, {.min = 1});
//   // width: -3  ->  train.yaml:4:10: model.width: must be at least 1, got -3
//   // widht: 3   ->  train.yaml:4:3: model.widht: unknown key (did you mean `width`?)
//
// Nothing here throws: a mistake is recorded and the default returned; the job ends after all mistakes in the file are
// found. A null value (`key:`) counts as not given. May only be used while the plugin's reader runs, on its thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/time.h"

namespace composer {

class ConfigMap;

struct PluginIntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};
struct PluginDoubleRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

class PluginConfig {
 public:
  // Created by the host.
  explicit PluginConfig(const ConfigMap& map);
  ~PluginConfig();
  PluginConfig(const PluginConfig&);
  PluginConfig& operator=(const PluginConfig&);

  // Return whether the map, or the key in it, is given.
  bool exists() const;
  bool Has(absl::string_view key) const;
  // Returns the dotted path from the top of the file: "model", "callbacks.my_callback".
  std::string path() const;

  // Without a fallback, the key is required.
  std::string String(absl::string_view key);
  std::string String(absl::string_view key, absl::string_view fallback);
  int64_t Int(absl::string_view key, int64_t fallback, PluginIntRange range = {});
  int64_t RequiredInt(absl::string_view key, PluginIntRange range = {});
  double Double(absl::string_view key, double fallback, PluginDoubleRange range = {});
  double RequiredDouble(absl::string_view key, PluginDoubleRange range = {});
  bool Bool(absl::string_view key, bool fallback);
  // Returns one of `allowed`.
  std::string Choice(absl::string_view key, absl::Span<const absl::string_view> allowed, absl::string_view fallback);
  // Accepts "10ep", "500ba", "0.1dur", "1h30m"; a bare number counts epochs. `fallback` must parse.
  composer::Time Time(absl::string_view key, absl::string_view fallback);
  std::vector<int64_t> IntList(absl::string_view key, std::vector<int64_t> fallback, PluginIntRange range = {});
  std::vector<double> DoubleList(absl::string_view key, std::vector<double> fallback, PluginDoubleRange range = {});
  // A single text counts as a list of one.
  std::vector<std::string> StringList(absl::string_view key, std::vector<std::string> fallback);

  // Returns a map in this one; if it is not given, one in which every key has its default.
  PluginConfig Map(absl::string_view key);
  // Returns the maps of a list; a single map counts as a list of one.
  std::vector<PluginConfig> MapList(absl::string_view key);

  // Records an error about this key's value, with its place in the file.
  void Reject(absl::string_view key, absl::string_view message);

 private:
  std::unique_ptr<ConfigMap> map_;
};

}  // namespace composer

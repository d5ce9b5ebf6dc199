// What differs between the configuration that a checkpoint was made with and that of a run that is about to resume from
// it, and whether the checkpoint's state still means something. Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "config/node.h"

namespace composer {

enum class ChangeClass {
  kHarmless,     // does not affect what is computed: logging, where files go, how samples are fetched
  kNotable,      // changes the run from here on: a learning rate, the length of the run
  kMeaningless,  // the state of the checkpoint belongs to another model, data set, seed or optimizer
};

struct ConfigChange {
  std::string path;           // "optimizers.lr"
  std::string before, after;  // "": absent
  ChangeClass kind = ChangeClass::kNotable;

  bool operator==(const ConfigChange&) const = default;
};

// A configuration as files keep it: every setting in force by its path (effective_config.h), without secrets.
struct KeptConfig {
  std::map<std::string, std::string> settings;
  // Keyed hashes of settings whose value is not shown because it comes from the environment or its key looks like a
  // secret's. A path hashed in only one of two configurations says nothing.
  std::map<std::string, std::string> hashes;
  // Settings that nobody wrote, and the innermost map above each that somebody did ("": the top). Files do not have it.
  std::map<std::string, std::string> defaults;

  bool operator==(const KeptConfig& other) const { return settings == other.settings && hashes == other.hashes; }
};

// `hash` is called with (path, value).
KeptConfig KeepConfig(const ConfigNode& effective,
                      const std::function<std::string(absl::string_view path, absl::string_view value)>& hash);

// Returns the changes in the order of paths; removed settings come last. A setting that only `after` has is not a
// change if it is the default in a map that `before` has, too: an older version did not know the key, and behaved so.
std::vector<ConfigChange> CompareConfigs(const KeptConfig& before, const KeptConfig& after);

// Returns how serious a change of this setting is.
ChangeClass ClassOfChange(absl::string_view path);

// Returns whether `resume_changes` permits this path: it holds `allow`, the path itself or a parent of it.
bool MayChange(const std::vector<std::string>& resume_changes, absl::string_view path);

// Returns "optimizers.lr 0.001 -> 0.5, max_duration 2ep -> 3ep"; at most eight changes, then the number of further
// ones.
std::string DescribeChanges(const std::vector<ConfigChange>& changes);

}  // namespace composer

// What is different between the configuration that a checkpoint was made with and that of a run that is about to
// resume from it, and whether the checkpoint's state still means something. Pure functions.
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
  kHarmless,     // changes nothing of what is computed: logging, where files go, how samples are fetched
  kNotable,      // changes the run from here on: a learning rate, the length of the run
  kMeaningless,  // the state of the checkpoint belongs to another model, data set, seed or optimizer
};

struct ConfigChange {
  std::string path;           // "optimizers.lr"
  std::string before, after;  // "": not there
  ChangeClass kind = ChangeClass::kNotable;

  bool operator==(const ConfigChange&) const = default;
};

// A configuration as it is kept in files: every setting in force by its path (effective_config.h), without secrets.
struct KeptConfig {
  std::map<std::string, std::string> settings;
  // Of settings whose value is not shown, since it is from the environment or its key looks like a secret's: a keyed
  // hash of it. A path that only one of two configurations has a hash of says nothing.
  std::map<std::string, std::string> hashes;

  bool operator==(const KeptConfig&) const = default;
};

// hash: of (path, value).
KeptConfig KeepConfig(const ConfigNode& effective,
                      const std::function<std::string(absl::string_view path, absl::string_view value)>& hash);

// In the order of paths; what is gone comes last.
std::vector<ConfigChange> CompareConfigs(const KeptConfig& before, const KeptConfig& after);

// How a change of this setting is to be taken.
ChangeClass ClassOfChange(absl::string_view path);

// Does `resume_changes` permit this path: `allow`, the path itself or something above it?
bool MayChange(const std::vector<std::string>& resume_changes, absl::string_view path);

// "optimizers.lr 0.001 -> 0.5, max_duration 2ep -> 3ep"; at most eight, then how many more.
std::string DescribeChanges(const std::vector<ConfigChange>& changes);

}  // namespace composer

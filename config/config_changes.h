// What is different between the configuration that a checkpoint was made with and that of a run that is about to resume from it, and whether
// the checkpoint's state still means something. Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

// A configuration as it is kept: effective (effective_config.h), without the values of the environment.
struct KeptConfig {
  ConfigNode root;
  // Of settings with a part out of the environment: path -> a keyed hash of the value. A path that only one of two has says nothing.
  std::map<std::string, std::string> hashes;
};

// In the order of `after`, then what is gone.
std::vector<ConfigChange> CompareConfigs(const KeptConfig& before, const KeptConfig& after);

// How a change of this setting is to be taken.
ChangeClass ClassOfChange(absl::string_view path);

// Does `resume_changes` permit this path: `allow`, the path itself or something above it?
bool MayChange(const std::vector<std::string>& resume_changes, absl::string_view path);

// "optimizers.lr 0.001 -> 0.5, max_duration 2ep -> 3ep"; at most eight, then how many more.
std::string DescribeChanges(const std::vector<ConfigChange>& changes);

}  // namespace composer

// Every setting in force: a job's file with the defaults from the table of keys filled in. Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "config/node.h"
#include "config/schema.h"

namespace composer {

inline constexpr char kDefaultSource[] = "default";

// Returns the resolved `document` with a value for each key that has a default; what was added is marked
// kDefaultSource. Leaves out keys without a default and those whose default follows from other settings in ways that
// only the run knows. Keeps what the schema does not know.
ConfigNode EffectiveConfig(const ConfigNode& document, const Schema& schema);

// One setting, for display.
struct Setting {
  std::string path;    // "optimizers.lr", "callbacks.0.fail_at.rank"
  std::string value;   // lists of values as "[64, 10]"; the text as written where it comes from the environment
  std::string origin;  // "train.yaml:7:3", "command line `seed=1`", "default"
};
// Returns the leaves of a tree, in its order; an empty map or list is also a leaf.
std::vector<Setting> ListSettings(const ConfigNode& root);

// Returns whether a key of this name holds a secret: token, key, secret or password, also as its last word (`api_key`).
bool IsSecretKey(absl::string_view key);

}  // namespace composer

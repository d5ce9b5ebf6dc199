// Every setting in force: a job's file with the defaults of the table of keys filled in. Pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "config/node.h"
#include "config/schema.h"

namespace composer {

inline constexpr char kDefaultSource[] = "default";

// The document with a value for each key that has a default; what was added is marked kDefaultSource. Keys whose
// default follows from other settings in ways that only the run knows, and those without one, are left out. document:
// resolved. What the schema does not know stays.
ConfigNode EffectiveConfig(const ConfigNode& document, const Schema& schema);

// One setting, for people.
struct Setting {
  std::string path;    // "optimizers.lr", "callbacks.0.fail_at.rank"
  std::string value;   // lists of values as "[64, 10]"; as written where it is from the environment
  std::string origin;  // "train.yaml:7:3", "command line `seed=1`", "default"
};
// The leaves of a tree, in its order; an empty map or list is one, too.
std::vector<Setting> ListSettings(const ConfigNode& root);

// Does a key of this name hold a secret: token, key, secret, password, also as its last word (`api_key`)?
bool IsSecretKey(absl::string_view key);

}  // namespace composer

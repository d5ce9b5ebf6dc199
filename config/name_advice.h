// Advice about an unknown name or key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "config/node.h"
#include "config/schema.h"

namespace composer {

// Returns "cosineannealingwithwarmup" for CosineAnnealingWithWarmupScheduler: small letters, without `_`, `-` and the
// kind of thing at the end.
std::string BareName(absl::string_view name);

// Returns the known names that a user may have meant: those with similar spelling, or the one whose class name was
// given (`CosineAnnealingWithWarmupScheduler`). The nearest comes first; at most three.
std::vector<std::string> NearNames(absl::string_view name, const std::vector<std::string>& known);

// Returns "`mpl` is not one of gpt, mlp (did you mean `mlp`?)"; for a long list: "`mpl` is not one of the 22 names that
// docs/configuration.md lists (did …)".
std::string UnknownName(absl::string_view name, const std::vector<std::string>& known);

// Does the same for a named thing of a kind ("logger"); where missing_keys.h knows the name, its reason is the advice.
std::string UnknownNameOfKind(absl::string_view kind, absl::string_view name, const std::vector<std::string>& known);

// Returns where a job's file may have a key of this name, as dotted paths: first within the things that the document
// names, then at the top. At most two.
std::vector<std::string> PlacesOfKey(absl::string_view key, const ConfigNode& document, const Schema& schema);

// Returns "unknown key" with the best advice available. `path` is dotted; `known` are the keys of its map.
std::string UnknownKey(absl::string_view path, absl::string_view key, const std::vector<std::string>& known,
                       const ConfigNode& document, const Schema& schema);

}  // namespace composer

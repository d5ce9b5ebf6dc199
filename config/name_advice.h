// What to say of a name or a key that is not known.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "config/node.h"
#include "config/schema.h"

namespace composer {

// The known names that a user may have meant: spelled alike, or a class name of it
// (`CosineAnnealingWithWarmupScheduler`). The nearest first, at most three.
std::vector<std::string> NearNames(absl::string_view name, const std::vector<std::string>& known);

// "`mpl` is not one of gpt, mlp (did you mean `mlp`?)"; of a long list: "`mpl` is not one of the 22 names that
// docs/configuration.md lists (did …)".
std::string UnknownName(absl::string_view name, const std::vector<std::string>& known);

// Where a job's file may have a key of this name, as dotted paths: of the things that the document names first, then
// of the top. At most two.
std::vector<std::string> PlacesOfKey(absl::string_view key, const ConfigNode& document, const Schema& schema);

// "unknown key" with the best advice there is. path: dotted; known: the keys of its map.
std::string UnknownKey(absl::string_view path, absl::string_view key, const std::vector<std::string>& known,
                       const ConfigNode& document, const Schema& schema);

}  // namespace composer

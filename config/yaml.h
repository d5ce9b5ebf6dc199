// Converts YAML text to and from ConfigNode. Stricter than YAML: keys are texts, a key occurs once in a map, and a file
// holds one document. Anchors, aliases and merges (`<<: *base`, explicit keys win) work; tags other than
// !!str/int/float/bool/null do not.
// Limits: 100,000 nodes after aliases are expanded, 64 levels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "config/node.h"

namespace composer {

// kInvalidArgument with one line per error: "train.yaml:7:3: `seed` is given twice (first at train.yaml:2:1)". Empty
// text is a null node, marked with the source. Text that is not valid UTF-8 is refused at its first bad byte.
absl::StatusOr<ConfigNode> ParseYaml(absl::string_view text, const std::string& source);

// Does the same for the value of an override; marks have no lines.
absl::StatusOr<ConfigNode> ParseYamlValue(absl::string_view text, const std::string& source);

// Returns block style that parses to an equal tree.
std::string ToYaml(const ConfigNode& node);
// Does the same for files that others may read: values from the environment appear as they were written
// (ConfigNode::written).
std::string ToShownYaml(const ConfigNode& node);

}  // namespace composer

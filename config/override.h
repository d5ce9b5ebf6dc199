// Command-line overrides, in the syntax of llm-foundry, OmegaConf and Hydra:
//   optimizer.lr=3e-4      sets; creates what is missing (the reader refuses names that nothing asks for)
//   callbacks.0.interval=5 list index; the index after the last appends
//   +new.key=1             creates; an error when it exists
//   ++key=1                sets
//   ~callbacks.lr_monitor  deletes; an error when it does not exist
// The value is YAML: numbers, booleans, lists `[1, 2]`, maps `{a: 1}`; nothing after `=` is null.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "config/node.h"

namespace composer {

// kInvalidArgument names the override and what is wrong with it; the tree is then unspecified.
absl::Status ApplyOverride(absl::string_view text, ConfigNode& root);

// Returns true for a word that ApplyOverride would try: it starts with `~`, or has a `=` after a dotted name.
bool LooksLikeOverride(absl::string_view text);

}  // namespace composer

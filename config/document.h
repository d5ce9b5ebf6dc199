// Loads a job's configuration as one resolved tree: files (left to right, later ones win), then overrides; then `${…}`
// is replaced, and names that other programs have for what is here become ours (foreign_names.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "config/node.h"

namespace composer {

// kNotFound / kPermissionDenied for a file that cannot be read, kInvalidArgument for all errors in its content. Each
// file must hold a map (or nothing) and be smaller than 1 MiB. Its key `defaults`, a file or a list of files relative
// to its folder, is read before it (at most 100 files); `_self_` there is ignored.
absl::StatusOr<ConfigNode> LoadConfig(const std::vector<std::string>& paths, const std::vector<std::string>& overrides,
                                      const Environment& env);

// Does the same without replacing `${…}` and without rewriting names.
absl::StatusOr<ConfigNode> LoadRawConfig(const std::vector<std::string>& paths,
                                         const std::vector<std::string>& overrides);

// Returns 16 hex digits over the values, then " key=" and 6 digits over the value of each top-level key, at most 1,000
// bytes in all. Where and in which style values were written does not matter.
std::string ConfigHash(const ConfigNode& root);

}  // namespace composer

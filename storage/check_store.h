// `composer store check PLACE`: does everything that a run does with a store, in a folder of its own which is removed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "storage/object_store.h"

namespace composer {

struct StoreFinding {
  std::string what;  // "list what is there"
  absl::Status status;
};
// Stops at the first failure that leaves nothing to try. `folder` is a key at which nothing lies.
std::vector<StoreFinding> CheckStore(ObjectStore& store, const std::string& folder);

// Returns a key for CheckStore that nobody else has: "composer-check-" and 16 hexadecimal digits.
std::string CheckFolderName();

}  // namespace composer

// What stores whose objects are files call the files of writes that are not done (object_store.h, IsLeftover).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"

namespace composer {

// Returns a random text of 16 hexadecimal digits: with it a writer knows its own object again.
std::string NewWriteAttempt();

// Returns the name, beside `path`, of a new file that becomes it once it is whole.
std::string TemporaryName(const std::string& path);

// Accepts a key, or a leftover's name as List returns it.
absl::Status CheckListedKey(const std::string& key);

}  // namespace composer

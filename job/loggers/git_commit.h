// The commit that a folder's working tree was made from, for the record of a run. It reads git's files and starts no
// program; changes that are not committed are not seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace composer {

// Returns the commit of the nearest working tree at or above the folder; "" when there is none.
std::string GitCommitOf(const std::string& folder);

}  // namespace composer

// `composer store check PLACE`: whether checkpoints can be kept at a place (storage/check_store.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace composer {

// `args` excludes the program and `store`. Returns the exit code: 0 all is well, 1 something is not, 64 usage or no
// such place.
int RunStoreCommand(const std::vector<std::string>& args, const StoreOpener& open, std::ostream& out,
                    std::ostream& err);

}  // namespace composer

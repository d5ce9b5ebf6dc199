// `composer data`: makes, shows, checks and joins data sets in mosaicml-streaming's MDS format, in folders and buckets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "storage/object_store.h"

namespace composer {

// `args` follow the word `data`. Returns the exit code: 0, 64 for a user's mistake, 70 for a damaged data set.
int RunDataTool(const std::vector<std::string>& args, const StoreOpener& open, std::ostream& out, std::ostream& err);

}  // namespace composer

// `composer data`: makes, shows, checks and joins data sets in mosaicml-streaming's MDS format, in folders and buckets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tools/data_stats.h"
#include "storage/object_store.h"

namespace composer {

// Opens the tokenizer at a path, whose tokens `stats --tokenizer` counts.
using TokenCounterOpener = std::function<absl::StatusOr<TokenCounter>(const std::string& path)>;

// `args` follow the word `data`. Returns the exit code: 0, 64 for a user's mistake, 70 for a damaged data set.
int RunDataTool(const std::vector<std::string>& args, const StoreOpener& open, const TokenCounterOpener& open_tokenizer,
                std::ostream& out, std::ostream& err);

}  // namespace composer

// `composer data show JOB.yaml`: the first samples of an epoch as the job's model gets them: what sources, transforms,
// packing, tokenizer, order and collation make of the data. Algorithms that change batches come later and are not run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

// `args`: what follows `data show`. Returns the exit code. Builds no model.
int RunShowData(const std::vector<std::string>& args, const Environment& env, std::ostream& out, std::ostream& err);

}  // namespace composer

// `composer convert`: a file for Composer, llm-foundry or DeepSpeed becomes one with our names; what has no counterpart
// is left out and listed with the reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "config/schema.h"

namespace composer {

struct Converted {
  std::string yaml;                   // with `${…}` as they were written
  std::vector<std::string> left_out;  // "loggers.wandb: it is not here; …", in the order of the file
  std::vector<std::string> to_do;     // what is still wrong with the result, as a launch would say it; empty: it runs
};

// Reads the file and what its `defaults` name. Named things that the schema requires (a model, training data) stay also
// when they are unknown, and are among `to_do`. kInvalidArgument when the file cannot be read as a job's at all.
absl::StatusOr<Converted> ConvertConfig(const std::string& path, const Environment& env, const Schema& schema);

}  // namespace composer

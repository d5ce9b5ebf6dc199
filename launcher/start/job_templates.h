// The jobs that `composer init` writes: a commented file that trains as it is, with a little data where it needs some.
// Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

struct JobTemplate {
  absl::string_view name, summary;
  // Returns the files, by their path in the job's folder; train.yaml is the first. The data is the same each time.
  std::vector<std::pair<std::string, std::string>> (*files)();
};

const std::vector<JobTemplate>& JobTemplates();

}  // namespace composer

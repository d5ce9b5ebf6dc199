// Fills in file names with Composer's placeholders: {run_name} {rank} {world_size}, those of the time
// (base/name_template.h), and our own {run_folder}. Other text is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/time.h"

namespace composer {

struct NameValues {
  absl::string_view run_name;
  absl::string_view run_folder;
  int rank = 0;
  int world_size = 1;
  Timestamp timestamp;
};

std::string FillName(absl::string_view name, const NameValues& values);

// Returns kInvalidArgument that names the first placeholder that FillName does not know, and those that it does.
absl::Status CheckName(absl::string_view name);

}  // namespace composer

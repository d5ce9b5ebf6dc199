// Checks a job's resolved file against the table of keys before anything is started or written: names, types, ranges,
// and constraints between settings as far as they need neither data nor model. Uses no torch and opens no file; takes
// some hundred microseconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "config/config_map.h"
#include "config/node.h"
#include "config/schema.h"

namespace composer {

struct JobCheck {
  const Schema& schema;
  // Some listed plugins bring no table of their own: names that the schema lacks may be theirs, and are left to the
  // worker.
  bool open_names = false;
  int world_size = 0;  // the largest that this launch may have; 0: unknown
  // False for a command that only uses the model (job_command.h): what training needs may be missing.
  bool trains = true;
};

// Returns OK, or kInvalidArgument with a line for each mistake, in the order of the file where possible.
absl::Status CheckJob(const ConfigNode& document, const JobCheck& check);

// If the error message begins with a setting's path ("model.vocab_size: …"), puts the setting's location in front: that
// of the nearest part of the path that somebody wrote. Returns other errors unchanged. `effective` comes from
// effective_config.h, or is the document itself.
absl::Status WithPlace(const ConfigNode& effective, const absl::Status& status);

// Checks what is not about a single value (job_rules.cc). Mistakes go to the reader.
void CheckJobRules(const ConfigNode& document, const JobCheck& check, ConfigReader& reader);

}  // namespace composer

// Checks a job's resolved file by the table of keys, before anything is started or written: names, types, ranges, and
// what must hold between settings as far as it needs neither data nor model. No torch, no file is opened: some
// hundred microseconds.
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
  // Plugins are listed that bring no table of their own: names that the schema lacks may be theirs, and are the
  // worker's to judge.
  bool open_names = false;
  int world_size = 0;  // the largest that this launch may have; 0: not known
};

// OK, or kInvalidArgument with a line for each mistake, in the order of the file where possible.
absl::Status CheckJob(const ConfigNode& document, const JobCheck& check);

// An error whose message begins with a setting's path ("model.vocab_size: …"), with the setting's place in front:
// that of the nearest part of the path that was written by someone. Others stay as they are. effective:
// effective_config.h, or the document itself.
absl::Status WithPlace(const ConfigNode& effective, const absl::Status& status);

// The part of it that is not about one value (job_rules.cc). Mistakes go to the reader.
void CheckJobRules(const ConfigNode& document, int world_size, ConfigReader& reader);

}  // namespace composer

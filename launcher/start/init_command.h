// `composer init [KIND] [FOLDER]`: writes a commented job that trains as it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace composer {

// Writes the job of a kind (job_templates.h) to FOLDER (my-KIND) and prints what to do next; without a KIND, lists
// them. Overwrites nothing. Returns 0, or 64 with a message.
int InitCommand(const std::vector<std::string>& arguments);

}  // namespace composer

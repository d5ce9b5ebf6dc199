// Implements `composer doctor`: gathers facts and prints what they mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

// Returns the exit code: 0, 69 if something fails, 64 for wrong flags.
int DoctorCommand(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace composer

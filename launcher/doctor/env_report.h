// `composer env`: what to paste into a report of a bug. A run that fails leaves it in logs/environment.txt. Says
// versions, machine, devices and the variables that programs of this kind read; no secrets, and no names of hosts or
// users.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "launcher/doctor/doctor_facts.h"

namespace composer {

struct ProgramFacts {
  std::string worker_version;  // what composer_worker says of itself, or why it says nothing
  std::string os;              // "Debian GNU/Linux 12 (bookworm)"
  std::string processor;       // "AMD EPYC 9354 32-Core Processor"
};

// Pure. Returns lines "name: value". Of a variable with a secret name (token, key, secret, password) it shows only that
// it is set, and of an address no user and password.
std::string EnvironmentReport(const DoctorFacts& machine, const ProgramFacts& programs, const Environment& environment);

// Returns the report of this machine. Takes half a second, and more where a folder is slow.
std::string GatherEnvironmentReport(const Environment& environment);

// Prints the report. Takes about a second.
int EnvCommand(const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace composer

// Judges what the facts about a machine mean for training on it, with advice. Pure. The limits are in the .cc, each
// with its reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/doctor_facts.h"

namespace composer {

enum class Health { kOk, kWarn, kFail };  // kFail means that training will not work, or not as requested

struct Finding {
  Health health = Health::kOk;
  std::string area;  // "host", "gpu", "nccl", "network", "clock", "disk"
  std::string text;
  std::string advice;  // "" if all is well
};

std::vector<Finding> Diagnose(const DoctorFacts& facts);

// Returns the worst health of all findings.
Health WorstOf(const std::vector<Finding>& findings);

// Returns "ok", "warn" or "FAIL".
std::string HealthName(Health health);

}  // namespace composer

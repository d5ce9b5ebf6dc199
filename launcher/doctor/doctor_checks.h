// What the facts about a machine mean for training on it, with advice. Pure; the limits are in the .cc, each with its reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/doctor_facts.h"

namespace composer {

enum class Health { kOk, kWarn, kFail };  // kFail: training will not work, or not with what was asked for

struct Finding {
  Health health = Health::kOk;
  std::string area;  // "host", "gpu", "nccl", "network", "clock", "disk"
  std::string text;
  std::string advice;  // "" when all is well
};

std::vector<Finding> Diagnose(const DoctorFacts& facts);

// The worst of all.
Health WorstOf(const std::vector<Finding>& findings);

// "ok", "warn", "FAIL".
std::string HealthName(Health health);

}  // namespace composer

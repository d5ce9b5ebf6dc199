// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/lr_monitor.h"

#include "absl/strings/str_cat.h"
#include "trainer/core/state.h"

namespace composer {

absl::Status LRMonitor::Run(Event event, State& state, Logger& logger) {
  const std::vector<ParamGroup>& groups = state.optimizer->groups();
  while (ids_.size() < groups.size()) {
    ids_.push_back(logger.Intern(absl::StrCat("lr-", state.optimizer->name(), "/group", ids_.size())));
  }
  if (event != Event::kBatchEnd) return absl::OkStatus();
  for (size_t i = 0; i < groups.size(); ++i) logger.Log(ids_[i], groups[i].lr);
  return absl::OkStatus();
}

}  // namespace composer

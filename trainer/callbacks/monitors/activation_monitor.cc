// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/activation_monitor.h"

#include "absl/strings/str_cat.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

absl::Status ActivationMonitor::Run(Event event, State& state, Logger& logger) {
  if (!logger.has_destinations() || state.model == nullptr) return absl::OkStatus();
  if (event == Event::kAfterForward) {
    if (recorder_ != nullptr) Log(logger);
    recorder_.reset();
    index_.reset();
    return absl::OkStatus();
  }
  recorder_.reset();  // left by a forward that threw
  const int64_t now = state.timestamp.Get(options_.interval.unit());
  if (now == last_ || now % options_.interval.count() != 0) return absl::OkStatus();
  last_ = now;
  // The index is rebuilt each time: surgery, or a move to another device, may have changed the modules and where their
  // tensors are.
  index_ = std::make_unique<ModuleIndex>(*state.model);
  recorder_ = std::make_unique<ActivationRecorder>(*index_, options_.ignore_module_types);
  return absl::OkStatus();
}

void ActivationMonitor::Log(Logger& logger) {
  for (const ActivationRecorder::Record& record : recorder_->Take()) {
    const ActivationStatistics& s = record.statistics;
    const std::pair<const char*, double> metrics[] = {
        {"l2_norm", s.l2_norm}, {"average", s.average}, {"kurtosis", s.kurtosis}, {"max", s.max}};
    for (const auto& [metric, value] : metrics)
      logger.Log(absl::StrCat("activations/", metric, "/", record.module, record.suffix), value);
  }
}

}  // namespace composer

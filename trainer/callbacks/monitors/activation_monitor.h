// Logs, every `interval`, statistics of the activations of one forward (the first microbatch of a batch) under
// Composer's names, with n from 0:
//
//   activations/{l2_norm,average,kurtosis,max}/<module>_input.<n>
//   activations/{l2_norm,average,kurtosis,max}/<module>_output.<n>
//
// Each statistic is taken over the last dimension and averaged over the others. activation_recorder.h does this and
// also says how modules are observed: every module with its own parameters is, automatically; others, such as a
// transformer's block, are when their forward opens a ModuleCall. Composer numbers outputs by sample, since it iterates
// over the output tensor; here an output is one tensor.
// A measured forward takes about twice as long; others are as fast as without the monitor. The values are of rank 0's
// samples.
// Source: mosaicml composer/callbacks/activation_monitor.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "trainer/core/callback.h"
#include "trainer/memory/activation_recorder.h"

namespace composer {

class ActivationMonitor final : public Callback {
 public:
  struct Options {
    Time interval = Time::Batches(25);  // kBatch or kEpoch, at least 1
    // Modules whose name or type contains one of these strings are not measured: "ln", "Dropout".
    std::vector<std::string> ignore_module_types;
  };
  explicit ActivationMonitor(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "ActivationMonitor"; }
  EventSet events() const override { return {Event::kBeforeForward, Event::kAfterForward}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  void Log(Logger& logger);

  Options options_;
  int64_t last_ = -1;  // when it last measured, in the interval's unit
  std::unique_ptr<ModuleIndex> index_;
  std::unique_ptr<ActivationRecorder> recorder_;  // only between the two events of a measured forward
};

}  // namespace composer

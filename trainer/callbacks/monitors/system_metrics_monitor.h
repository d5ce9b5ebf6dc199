// Logs the load of rank 0's machine, at most once every `interval`, at BATCH_START and EVAL_BATCH_START. Names are
// Composer's:
//
//   cpu_percentage                                        all processors, since the last reading (none at the first)
//   cpu_memory_{total,available,percent,used,free,active,inactive,buffers,cached,shared,slab}          bytes, percent
//   disk_memory_{total,used,free,percent}                 of the file system of the run folder (Composer: of /)
//   network_{bytes,packets}_{sent,recv}, network_{err,drop}{in,out}                                    since boot
//   {min,max}_{gpu_percentage,memory_percentage,gpu_temperature_C,gpu_power_usage_W}   over the machine's GPUs; beyond
//     Composer's: gpu_memory_errors (uncorrected since the driver was loaded), gpu_slowed_down (1: by heat or power)
//   with log_all_data instead: gpu_percentage_rank_<i>, …, i = NVML's number of the GPU, which is the local rank
//     where ranks have GPUs in order
//
// Composer's gathers every rank's numbers as Python objects at every batch, and puts the rank into the names of min and
// max, so that a chart breaks whenever another rank becomes the hottest. Here rank 0 asks the GPUs of its own node, and
// with dist_aggregate_batch_interval all ranks gather the numbers of their own GPU: i is then the rank.
// Source: mosaicml composer/callbacks/system_metrics_monitor.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/machine_stats.h"
#include "base/nvml.h"
#include "trainer/core/callback.h"

namespace composer {

class Communicator;

// A value that cannot be measured is not logged; a warning says so once. A reading costs some 100 us, and 1 ms per GPU.
class SystemMetricsMonitor final : public Callback {
 public:
  struct Options {
    bool log_all_data = false;
    absl::Duration interval = absl::Seconds(1);  // 0 means at every batch
    int64_t dist_aggregate_batch_interval = 0;   // every so many batches the GPUs of all ranks; 0: only the node's own
    int gpu = 0;                                 // CUDA's number of this rank's GPU: the local rank
    std::string visible_devices;                 // CUDA_VISIBLE_DEVICES
    std::string proc = "/proc";
    std::string nvml_library = "libnvidia-ml.so.1";
  };
  // clock must outlive the monitor, and so must communicator: the run's, of all ranks; null: one rank.
  explicit SystemMetricsMonitor(Options options, const Clock& clock = RealClock::Get(),
                                Communicator* communicator = nullptr);

  std::string name() const override { return "SystemMetricsMonitor"; }
  EventSet events() const override { return {Event::kFitStart, Event::kBatchStart, Event::kEvalBatchStart}; }
  // kFailedPrecondition: the other ranks' GPUs are wanted, and there is no communicator.
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  void Start(const State& state);
  absl::Status LogMachine(const State& state, Logger& logger);
  absl::Status LogGpus(Logger& logger) const;
  absl::Status LogGpusOfAllRanks(const State& state, Logger& logger);
  void WarnOnce(const absl::Status& status);

  Options options_;
  const Clock& clock_;
  Communicator* communicator_;
  std::unique_ptr<Nvml> nvml_;  // null when there are no GPUs
  std::optional<CpuTimes> cpu_;
  absl::Time next_;
  bool warned_ = false;
};

}  // namespace composer

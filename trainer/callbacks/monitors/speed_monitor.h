// Logs the speed of training. With t, b, s, k = wall-clock seconds, batches, samples and tokens of training so far, and
// d(x) = x now - x `window_size` batches ago, it logs at every batch end
//
//   throughput/batches_per_sec            d(b) / d(t)            once window_size batches were seen, so that the slow
//   throughput/samples_per_sec            d(s) / d(t)            first ones do not count for long
//   throughput/tokens_per_sec             d(k) / d(t)            when the data has tokens
//   throughput/flops_per_sec              samples_per_sec * flops of a sample     when the model knows them
//   throughput/device/<each of these>     the same / world_size
//   throughput/device/mfu                 device/flops_per_sec / the device's peak
//   time/train, time/val, time/total      training, evaluation, their sum, in time_unit; over all attempts of the run
//
// t excludes evaluations and checkpoints. After a resume the window starts empty. The peak is gpu_flops_available when
// given, else that of device_peaks for the GPU's name and the precision of its matrix products: tf32 for precision fp32
// where the trainer allows it (Composer divides by the fp32 peak even then). On a CPU, mfu is logged only with
// gpu_flops_available.
// Source: mosaicml composer/callbacks/speed_monitor.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/clock.h"
#include "trainer/core/callback.h"
#include "trainer/core/logger.h"

namespace composer {

// A step costs O(1) and allocates nothing.
class SpeedMonitor final : public Callback {
 public:
  struct Options {
    int window_size = 100;                      // batches, at least 1
    double gpu_flops_available = 0;             // a device's peak; 0 means look it up by name
    absl::Duration time_unit = absl::Hours(1);  // of time/…: a second, a minute, an hour or a day
    std::string visible_devices;                // CUDA_VISIBLE_DEVICES, to find the GPU's name
  };
  // The clock, which times the evaluations, must outlive the monitor.
  explicit SpeedMonitor(const Options& options, const Clock& clock = RealClock::Get());

  std::string name() const override { return "SpeedMonitor"; }
  EventSet events() const override { return {Event::kFitStart, Event::kBatchEnd, Event::kEvalStart, Event::kEvalEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view json) override;

 private:
  struct Point {
    absl::Duration time;
    int64_t batches = 0, samples = 0, tokens = 0;
  };
  struct Rate {
    Logger::MetricId all, device;
  };
  void Start(const State& state, Logger& logger);
  void LogRates(const Point& oldest, const Point& newest, Logger& logger) const;
  void LogRate(const Rate& rate, double per_second, Logger& logger) const;
  void LogTimes(const State& state, Logger& logger) const;

  Options options_;
  const Clock& clock_;
  std::vector<Point> window_;  // ring of window_size + 1 points
  size_t next_ = 0;            // the point to write next, the oldest once the ring is full
  size_t count_ = 0;
  double flops_per_sample_ = 0;
  double peak_flops_ = 0;  // of a device; 0 means not known
  double world_size_ = 1;
  double eval_seconds_ = 0;
  absl::Time eval_started_;
  Rate batches_{}, samples_{}, tokens_{}, flops_{};
  Logger::MetricId mfu_ = 0;
  std::array<Logger::MetricId, 3> times_{};  // train, val, total
};

}  // namespace composer

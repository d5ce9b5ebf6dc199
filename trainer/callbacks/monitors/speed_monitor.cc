// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/speed_monitor.h"

#include <ATen/Context.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/nvml.h"
#include "base/saved_numbers.h"
#include "base/status_macros.h"
#include "trainer/callbacks/monitors/device_peaks.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

MathType MathOf(Precision precision) {
  switch (precision) {
    case Precision::kAmpFp16:
      return MathType::kFp16;
    case Precision::kAmpBf16:
      return MathType::kBf16;
    case Precision::kAmpFp8:
      return MathType::kFp8;
    case Precision::kFp32:
      break;
  }
  return at::globalContext().allowTF32CuBLAS() ? MathType::kTf32 : MathType::kFp32;
}

absl::StatusOr<double> PeakOfGpu(const State& state, const std::string& visible_devices) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Nvml> nvml, Nvml::Load());
  ASSIGN_OR_RETURN(const int index, nvml->IndexOf(std::max<int>(0, state.identity.device.index()), visible_devices));
  ASSIGN_OR_RETURN(const std::string name, nvml->Name(index));
  const std::optional<double> peak = PeakFlops(name, MathOf(state.settings.precision));
  if (peak.has_value()) return *peak;
  return absl::NotFoundError(
      absl::StrCat("the peak of ", name, " in ", PrecisionName(state.settings.precision), " is not known"));
}

double PeakOf(const State& state, const SpeedMonitor::Options& options) {
  if (options.gpu_flops_available > 0 || state.identity.device.is_cpu()) return options.gpu_flops_available;
  const absl::StatusOr<double> peak = PeakOfGpu(state, options.visible_devices);
  if (peak.ok()) return *peak;
  if (state.identity.rank == 0) {
    LOG(WARNING) << "speed_monitor logs no mfu: " << peak.status().message()
                 << "; set speed_monitor.gpu_flops_available";
  }
  return 0;
}

}  // namespace

SpeedMonitor::SpeedMonitor(const Options& options, const Clock& clock)
    : options_(options), clock_(clock), window_(static_cast<size_t>(std::max(1, options.window_size)) + 1) {}

absl::Status SpeedMonitor::Run(Event event, State& state, Logger& logger) {
  switch (event) {
    case Event::kFitStart:
      Start(state, logger);
      break;
    case Event::kEvalStart:
      eval_started_ = clock_.Now();
      break;
    case Event::kEvalEnd:
      eval_seconds_ += absl::ToDoubleSeconds(clock_.Now() - eval_started_);
      break;
    default: {
      const Timestamp& now = state.timestamp;
      const Point newest{now.total_wct, now.batch, now.sample, now.token};
      window_[next_] = newest;
      next_ = (next_ + 1) % window_.size();
      count_ = std::min(count_ + 1, window_.size());
      if (count_ == window_.size()) LogRates(window_[next_], newest, logger);
      LogTimes(state, logger);
    }
  }
  return absl::OkStatus();
}

void SpeedMonitor::Start(const State& state, Logger& logger) {
  const auto intern = [&](absl::string_view what) {
    return Rate{logger.Intern(absl::StrCat("throughput/", what)),
                logger.Intern(absl::StrCat("throughput/device/", what))};
  };
  batches_ = intern("batches_per_sec");
  samples_ = intern("samples_per_sec");
  tokens_ = intern("tokens_per_sec");
  flops_ = intern("flops_per_sec");
  times_ = {logger.Intern("time/train"), logger.Intern("time/val"), logger.Intern("time/total")};
  flops_per_sample_ = state.model == nullptr ? 0 : state.model->flops_per_sample();
  peak_flops_ = flops_per_sample_ > 0 ? PeakOf(state, options_) : 0;
  mfu_ = logger.Intern("throughput/device/mfu");
  world_size_ = state.identity.world_size;
  next_ = count_ = 0;
}

void SpeedMonitor::LogRates(const Point& oldest, const Point& newest, Logger& logger) const {
  const double seconds = absl::ToDoubleSeconds(newest.time - oldest.time);
  if (seconds <= 0) return;
  const double samples_per_second = static_cast<double>(newest.samples - oldest.samples) / seconds;
  LogRate(batches_, static_cast<double>(newest.batches - oldest.batches) / seconds, logger);
  LogRate(samples_, samples_per_second, logger);
  const int64_t tokens = newest.tokens - oldest.tokens;
  if (tokens > 0) LogRate(tokens_, static_cast<double>(tokens) / seconds, logger);
  if (flops_per_sample_ <= 0) return;
  const double flops_per_second = samples_per_second * flops_per_sample_;
  LogRate(flops_, flops_per_second, logger);
  if (peak_flops_ > 0) logger.Log(mfu_, flops_per_second / world_size_ / peak_flops_);
}

void SpeedMonitor::LogRate(const Rate& rate, double per_second, Logger& logger) const {
  logger.Log(rate.all, per_second);
  logger.Log(rate.device, per_second / world_size_);
}

void SpeedMonitor::LogTimes(const State& state, Logger& logger) const {
  const double train = absl::FDivDuration(state.timestamp.total_wct, options_.time_unit);
  const double val = eval_seconds_ / absl::ToDoubleSeconds(options_.time_unit);
  logger.Log(times_[0], train);
  logger.Log(times_[1], val);
  logger.Log(times_[2], train + val);
}

std::string SpeedMonitor::SaveState() const { return SaveNumbers({{"total_eval_seconds", eval_seconds_}}); }

absl::Status SpeedMonitor::LoadState(absl::string_view json) {
  return LoadNumbers(json, {{"total_eval_seconds", &eval_seconds_}});
}

}  // namespace composer

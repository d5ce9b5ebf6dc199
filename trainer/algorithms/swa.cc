// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/swa.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

using Json = nlohmann::json;

double Elapsed(const Time& like, const State& state) {
  if (like.unit() == TimeUnit::kDuration) return ElapsedFraction(state.timestamp, state.max_duration);
  return static_cast<double>(state.timestamp.epoch);
}

// Takes the learning rate of the other schedulers of the run to that of the average.
class SwaSchedule final : public Scheduler {
 public:
  SwaSchedule(const SwaOptions& options, std::shared_ptr<const Swa::Progress> progress, const SchedulerList& all)
      : options_(options), progress_(std::move(progress)), all_(all) {}
  std::string name() const override { return "SWALR"; }
  bool StepEveryBatch(bool /*every_batch*/) override { return true; }

  double OthersFactor(const Timestamp& now, const ScheduleContext& context) const {
    double product = 1;
    for (const auto& scheduler : all_) {
      if (scheduler.get() != this) product *= scheduler->Factor(now, context);
    }
    return product;
  }
  double Factor(const Timestamp& now, const ScheduleContext& context) const override {
    if (progress_->completed || !progress_->start_factor) return 1;
    const double others = OthersFactor(now, context);
    if (others == 0) return 1;
    const double end = options_.swa_lr ? *options_.swa_lr / context.initial_lr : *progress_->start_factor;
    const double part = SwaAnnealing(options_, progress_->averaged);
    return (1 - part) + part * end / others;
  }

 private:
  SwaOptions options_;
  std::shared_ptr<const Swa::Progress> progress_;
  const SchedulerList& all_;
};

}  // namespace

absl::Status Validate(const SwaOptions& options) {
  const auto refuse = [](absl::string_view field, const std::string& value, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", ", why));
  };
  const Time &start = options.swa_start, &end = options.swa_end, &interval = options.update_interval;
  if (start.unit() != TimeUnit::kDuration && start.unit() != TimeUnit::kEpoch)
    return refuse("swa_start", start.ToString(), "allowed are parts of the run (dur) and epochs (ep)");
  if (start.unit() != end.unit())
    return refuse("swa_end", end.ToString(), absl::StrCat("it must have the unit of swa_start, ", start.ToString()));
  if (!(start.value() >= 0 && start.value() < end.value()))
    return refuse("swa_end", end.ToString(), absl::StrCat("it must be after swa_start, ", start.ToString()));
  if (end.unit() == TimeUnit::kDuration && end.value() > 1)
    return refuse("swa_end", end.ToString(), "it must be at most 1dur");
  if ((interval.unit() != TimeUnit::kBatch && interval.unit() != TimeUnit::kEpoch) || interval.count() < 1)
    return refuse("update_interval", interval.ToString(), "allowed are batches (ba) and epochs (ep), at least one");
  if (options.anneal_steps < 1)
    return refuse("anneal_steps", absl::StrCat(options.anneal_steps), "it must be at least 1");
  if (options.swa_lr && !(*options.swa_lr >= 0))
    return refuse("swa_lr", absl::StrCat(*options.swa_lr), "it must be at least 0");
  return absl::OkStatus();
}

double SwaAnnealing(const SwaOptions& options, int64_t updates) {
  const double part = std::min(1.0, static_cast<double>(updates) / static_cast<double>(options.anneal_steps));
  return options.anneal_cosine ? (1 - std::cos(std::numbers::pi * part)) / 2 : part;
}

Event Swa::update_event() const {
  return options_.update_interval.unit() == TimeUnit::kBatch ? Event::kBatchEnd : Event::kEpochEnd;
}

bool Swa::Match(Event event, const State& state) const {
  if (event == Event::kInit) return true;
  return !progress_->completed && Elapsed(options_.swa_start, state) >= options_.swa_start.value();
}

absl::Status Swa::Apply(Event event, State& state, Logger& /*logger*/) {
  if (event == Event::kInit) {
    model_ = state.model;
    const auto same = [&](const auto& other) { return other.get() != this && other->name() == name(); };
    if (std::any_of(state.algorithms.begin(), state.algorithms.end(), same))
      return absl::InvalidArgumentError("swa: a run has one average of its weights; there are two in algorithms");
    if (options_.schedule_swa_lr)
      state.schedulers.push_back(std::make_unique<SwaSchedule>(options_, progress_, state.schedulers));
    return absl::OkStatus();
  }
  if (kept_.empty()) {
    Begin();
    const ParamGroup& group = state.optimizer->groups().front();
    progress_->start_factor = group.initial_lr == 0 ? 1 : group.lr / group.initial_lr;
  }
  if (progress_->steps++ % options_.update_interval.count() == 0) Update();
  if (Elapsed(options_.swa_end, state) >= options_.swa_end.value()) Replace();
  return absl::OkStatus();
}

void Swa::Begin() {
  const torch::NoGradGuard no_grad;
  kept_.clear();
  absl::flat_hash_set<const void*> seen;
  const auto keep = [&](const std::string& name, const at::Tensor& live, bool is_param) {
    if (seen.insert(live.unsafeGetTensorImpl()).second) kept_.push_back({name, live, live.detach().clone(), is_param});
  };
  for (const auto& item : model_->named_parameters()) keep(item.key(), item.value(), true);
  for (const auto& item : model_->named_buffers()) keep(item.key(), item.value(), false);
}

void Swa::Update() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> means, live;
  for (const Kept& kept : kept_) {
    if (kept.is_param && progress_->averaged > 0) {
      means.push_back(kept.mean);
      live.push_back(kept.live.detach());
    } else {
      kept.mean.copy_(kept.live.detach());
    }
  }
  if (!live.empty()) at::_foreach_lerp_(means, live, 1.0 / static_cast<double>(progress_->averaged + 1));
  ++progress_->averaged;
}

void Swa::Replace() {
  const torch::NoGradGuard no_grad;
  for (const Kept& kept : kept_) kept.live.detach().copy_(kept.mean);
  kept_.clear();
  progress_->completed = true;
}

std::vector<KeptTensor> Swa::tensors() const {
  std::vector<KeptTensor> result;
  for (const Kept& kept : kept_) result.push_back({kept.name, kept.mean, kept.is_param ? kept.live : at::Tensor()});
  return result;
}

std::string Swa::SaveState() const {
  if (!progress_->start_factor) return "";
  return Json{{"averaged", progress_->averaged},
              {"steps", progress_->steps},
              {"completed", progress_->completed},
              {"start_factor", *progress_->start_factor}}
      .dump();
}

absl::Status Swa::PrepareLoad(absl::string_view json) {
  kept_.clear();
  *progress_ = Progress{};
  if (json.empty()) return absl::OkStatus();
  const Json saved = ParseJson(json);
  const auto count = [&](const char* key) { return saved.contains(key) && saved[key].is_number_integer(); };
  if (!saved.is_object() || !count("averaged") || !count("steps") || !saved.contains("completed") ||
      !saved["completed"].is_boolean() || !saved.contains("start_factor") || !saved["start_factor"].is_number())
    return absl::DataLossError(absl::StrCat("SWA: its state is not as it was saved: ", json.substr(0, 80)));
  if (model_ == nullptr)
    return absl::FailedPreconditionError("SWA: a checkpoint with an average cannot be loaded before the end of INIT");
  progress_->averaged = saved["averaged"];
  progress_->steps = saved["steps"];
  progress_->completed = saved["completed"];
  progress_->start_factor = saved["start_factor"].get<double>();
  if (!progress_->completed) Begin();
  return absl::OkStatus();
}

}  // namespace composer

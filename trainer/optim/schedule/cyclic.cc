// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/schedule/cyclic.h"

#include <cmath>
#include <optional>

#include "trainer/optim/schedule/bad_value.h"
#include "trainer/optim/schedule/torch_schedules.h"

namespace composer {
namespace {

class CyclicScheduler final : public Scheduler {
 public:
  explicit CyclicScheduler(const CyclicSpec& spec) : spec_(spec) {}

  double Factor(const Timestamp& now, const ScheduleContext& context) const override {
    return context.initial_lr == 0 ? 1 : At(now).lr / context.initial_lr;
  }
  std::optional<double> Momentum(const Timestamp& now, const ScheduleContext& context) const override {
    if (!spec_.cycle_momentum) return std::nullopt;
    return At(now).momentum;
  }
  bool StepEveryBatch(bool every_batch) override {
    spec_.every_batch = every_batch;
    return true;
  }
  absl::Status Check(const ScheduleContext& context) const override {
    if (context.scale_schedule_ratio != 1) {
      return BadValue("scale_schedule_ratio", context.scale_schedule_ratio, "1 with cyclic_lr, which cannot be scaled");
    }
    if (context.initial_lr == 0) return BadValue("lr", 0, "more than 0 for cyclic_lr to change it");
    return Validate(spec_);
  }

 private:
  CyclicValues At(const Timestamp& now) const { return CyclicAt(spec_, TorchSteps(spec_.every_batch, now)); }

  CyclicSpec spec_;
};

double ScaleOfCycle(const CyclicSpec& spec, double cycle, int64_t k) {
  if (spec.mode == CyclicMode::kTriangular2) return std::exp2(1 - cycle);
  return spec.mode == CyclicMode::kExpRange ? std::pow(spec.gamma, k) : 1;
}

}  // namespace

CyclicValues CyclicAt(const CyclicSpec& spec, int64_t k) {
  const auto up = static_cast<double>(spec.step_size_up);
  const double down = spec.step_size_down > 0 ? static_cast<double>(spec.step_size_down) : up;
  const double cycles = static_cast<double>(k) / (up + down), done = std::floor(cycles), x = cycles - done;
  const double share = up / (up + down);
  const double height = (x <= share ? x / share : (1 - x) / (1 - share)) * ScaleOfCycle(spec, done + 1, k);
  return {spec.base_lr + (spec.max_lr - spec.base_lr) * height,
          spec.max_momentum - (spec.max_momentum - spec.base_momentum) * height};
}

absl::Status Validate(const CyclicSpec& spec) {
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  if (!(spec.base_lr >= 0)) return BadValue("base_lr", spec.base_lr, "at least 0");
  if (!(spec.max_lr >= spec.base_lr)) return BadValue("max_lr", spec.max_lr, "at least base_lr");
  if (spec.step_size_up < 1) return BadValue("step_size_up", spec.step_size_up, "at least 1");
  if (spec.step_size_down < 0) return BadValue("step_size_down", spec.step_size_down, "at least 1");
  if (!(spec.gamma > 0)) return BadValue("gamma", spec.gamma, "more than 0");
  if (!fraction(spec.base_momentum)) return BadValue("base_momentum", spec.base_momentum, "in [0, 1)");
  if (!fraction(spec.max_momentum)) return BadValue("max_momentum", spec.max_momentum, "in [0, 1)");
  return absl::OkStatus();
}

std::unique_ptr<Scheduler> MakeCyclicScheduler(const CyclicSpec& spec) {
  return std::make_unique<CyclicScheduler>(spec);
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "job/job_scheduler.h"

#include <algorithm>

#include "job/named_reader.h"
#include "job/plugin/job_time.h"
#include "trainer/optim/schedule/cyclic.h"
#include "trainer/optim/schedule/one_cycle.h"
#include "trainer/optim/schedule/reduce_lr_on_plateau.h"
#include "trainer/optim/schedule/schedules.h"
#include "trainer/optim/schedule/torch_schedules.h"

namespace composer {
namespace {

void ReadScheduleTime(ConfigMap& config, absl::string_view key, Time& time) {
  if (config.Has(key)) time = ReadTime(config, key, "");
}

void ReadMilestones(ConfigMap& config, ScheduleSpec& spec) {
  for (const std::string& text : config.StringList("milestones", {})) {
    const absl::StatusOr<Time> parsed = ParseTime(text);
    if (!parsed.ok()) config.Reject("milestones", parsed.status().message());
    if (parsed.ok()) spec.milestones.push_back(*parsed);
  }
}

// Reads only the keys that the curve uses; others stay unknown.
void ReadCurve(ConfigMap& config, ScheduleSpec& spec) {
  const auto number = [&](absl::string_view key, double& value, DoubleRange range = {}) {
    value = config.Double(key, value, range);
  };
  switch (spec.curve) {
    case Curve::kConstant:
      number("alpha", spec.alpha_i);
      ReadScheduleTime(config, "t_max", spec.t_max);
      break;
    case Curve::kLinear:
      number("alpha_i", spec.alpha_i);
      number("alpha_f", spec.alpha_f);
      ReadScheduleTime(config, "t_max", spec.t_max);
      break;
    case Curve::kPolynomial:
      number("power", spec.power);
      [[fallthrough]];
    case Curve::kCosine:
      number("alpha_f", spec.alpha_f);
      ReadScheduleTime(config, "t_max", spec.t_max);
      break;
    case Curve::kExponential:
      number("gamma", spec.gamma);
      ReadScheduleTime(config, "decay_period", spec.period);
      break;
    case Curve::kStep:
      number("gamma", spec.gamma);
      ReadScheduleTime(config, "step_size", spec.period);
      break;
    case Curve::kMultiStep:
      number("gamma", spec.gamma);
      ReadMilestones(config, spec);
      break;
    case Curve::kWarmRestarts:
      number("t_mult", spec.t_mult, {.min = 1});
      number("alpha_f", spec.alpha_f);
      ReadScheduleTime(config, "t_0", spec.period);
      break;
    case Curve::kStableDecay: {
      number("alpha_f", spec.alpha_f);
      ReadScheduleTime(config, "t_max", spec.t_max);
      ReadScheduleTime(config, "t_decay", spec.t_decay);
      const std::string decay = config.Choice("decay", {"linear", "cosine", "sqrt"}, "linear");
      spec.decay = decay == "cosine" ? DecayShape::kCosine : decay == "sqrt" ? DecayShape::kSqrt : DecayShape::kLinear;
      if (config.Has("t_warmup")) spec.t_warmup = Time::Batches(0);  // read with that of the others
      break;
    }
  }
}

SchedulerFactory ReadComposerSchedule(ConfigMap& config, ScheduleSpec spec, bool every_batch, bool composer_compat) {
  ReadCurve(config, spec);
  spec.every_epoch = !every_batch;
  if (spec.t_warmup.has_value()) {
    ReadScheduleTime(config, "t_warmup", *spec.t_warmup);
    spec.scale_warmup = config.Bool("scale_warmup", false);
    spec.composer_warmup = composer_compat;
  }
  return [spec] { return MakeScheduler(spec); };
}

// Does the same for torch's schedulers: arguments without a default are required.
template <TorchCurve curve>
SchedulerFactory ReadTorchSchedule(ConfigMap& config, bool every_batch) {
  TorchScheduleSpec spec;
  spec.curve = curve;
  spec.every_batch = every_batch;
  switch (curve) {
    case TorchCurve::kStep:
      spec.step_size = config.RequiredInt("step_size", {.min = 1});
      spec.gamma = config.Double("gamma", spec.gamma);
      break;
    case TorchCurve::kMultiStep:
      if (!config.Has("milestones")) config.Reject("milestones", "required: numbers of steps, [30, 60]");
      spec.milestones = config.IntList("milestones", {}, {.min = 0});
      spec.gamma = config.Double("gamma", spec.gamma);
      break;
    case TorchCurve::kConstant:
      spec.factor = config.Double("factor", spec.factor, {.min = 0, .max = 1});
      spec.total_iters = config.Int("total_iters", spec.total_iters, {.min = 1});
      break;
    case TorchCurve::kPolynomial:
      spec.total_iters = config.Int("total_iters", spec.total_iters, {.min = 1});
      spec.power = config.Double("power", spec.power, {.min = 0});
      break;
    case TorchCurve::kLinear:
      spec.start_factor = config.Double("start_factor", spec.start_factor, {.min = 0, .max = 1});
      spec.end_factor = config.Double("end_factor", spec.end_factor, {.min = 0, .max = 1});
      spec.total_iters = config.Int("total_iters", spec.total_iters, {.min = 1});
      break;
    case TorchCurve::kExponential:
      spec.gamma = config.RequiredDouble("gamma");
      break;
    case TorchCurve::kCosine:
      spec.t_max = config.RequiredInt("T_max", {.min = 1});
      spec.eta_min = config.Double("eta_min", spec.eta_min, {.min = 0});
      break;
    case TorchCurve::kWarmRestarts:
      spec.t_0 = config.RequiredInt("T_0", {.min = 1});
      spec.t_mult = config.Int("T_mult", spec.t_mult, {.min = 1});
      spec.eta_min = config.Double("eta_min", spec.eta_min, {.min = 0});
      break;
  }
  return [spec] { return MakeTorchScheduler(spec); };
}

SchedulerFactory ReadOneCycle(ConfigMap& config, bool every_batch) {
  OneCycleSpec spec;
  spec.every_batch = every_batch;
  spec.max_lr = config.RequiredDouble("max_lr", {.min = 0});
  spec.total_steps = config.Int("total_steps", spec.total_steps, {.min = 1});
  spec.epochs = config.Int("epochs", spec.epochs, {.min = 1});
  spec.steps_per_epoch = config.Int("steps_per_epoch", spec.steps_per_epoch, {.min = 1});
  spec.pct_start = config.Double("pct_start", spec.pct_start, {.min = 0, .max = 1});
  spec.linear = config.Choice("anneal_strategy", {"cos", "linear"}, "cos") == "linear";
  spec.cycle_momentum = config.Bool("cycle_momentum", spec.cycle_momentum);
  spec.base_momentum = config.Double("base_momentum", spec.base_momentum);
  spec.max_momentum = config.Double("max_momentum", spec.max_momentum);
  spec.div_factor = config.Double("div_factor", spec.div_factor);
  spec.final_div_factor = config.Double("final_div_factor", spec.final_div_factor);
  spec.three_phase = config.Bool("three_phase", spec.three_phase);
  return [spec] { return MakeOneCycleScheduler(spec); };
}

SchedulerFactory ReadCyclic(ConfigMap& config, bool every_batch) {
  CyclicSpec spec;
  spec.every_batch = every_batch;
  spec.base_lr = config.RequiredDouble("base_lr", {.min = 0});
  spec.max_lr = config.RequiredDouble("max_lr", {.min = 0});
  spec.step_size_up = config.Int("step_size_up", spec.step_size_up, {.min = 1});
  spec.step_size_down = config.Int("step_size_down", spec.step_size_down, {.min = 1});
  const std::string mode = config.Choice("mode", {"triangular", "triangular2", "exp_range"}, "triangular");
  spec.mode = mode == "triangular2" ? CyclicMode::kTriangular2
              : mode == "exp_range" ? CyclicMode::kExpRange
                                    : CyclicMode::kTriangular;
  spec.gamma = config.Double("gamma", spec.gamma);
  spec.cycle_momentum = config.Bool("cycle_momentum", spec.cycle_momentum);
  spec.base_momentum = config.Double("base_momentum", spec.base_momentum);
  spec.max_momentum = config.Double("max_momentum", spec.max_momentum);
  if (const absl::Status status = Validate(spec); !status.ok()) config.Reject("name", status.message());
  return [spec] { return MakeCyclicScheduler(spec); };
}

SchedulerFactory ReadPlateau(ConfigMap& config, bool every_batch) {
  PlateauSpec spec;
  spec.every_batch = every_batch;
  spec.monitor = config.String("monitor", spec.monitor);
  spec.maximize = config.Choice("mode", {"min", "max"}, "min") == "max";
  spec.factor = config.Double("factor", spec.factor);
  spec.patience = config.Int("patience", spec.patience, {.min = 0});
  spec.threshold = config.Double("threshold", spec.threshold);
  spec.absolute = config.Choice("threshold_mode", {"rel", "abs"}, "rel") == "abs";
  spec.cooldown = config.Int("cooldown", spec.cooldown, {.min = 0});
  spec.min_lr = config.Double("min_lr", spec.min_lr);
  spec.eps = config.Double("eps", spec.eps);
  if (const absl::Status status = Validate(spec); !status.ok()) config.Reject("name", status.message());
  return [spec] { return std::make_unique<ReduceLROnPlateau>(spec); };
}

struct TorchRow {
  const char* name;
  SchedulerFactory (*read)(ConfigMap& config, bool every_batch);
};
constexpr TorchRow kTorchSchedulers[] = {
    {"constant_lr", ReadTorchSchedule<TorchCurve::kConstant>},
    {"cosine_annealing_lr", ReadTorchSchedule<TorchCurve::kCosine>},
    {"cosine_annealing_warm_restarts_lr", ReadTorchSchedule<TorchCurve::kWarmRestarts>},
    {"cyclic_lr", ReadCyclic},
    {"exponential_lr", ReadTorchSchedule<TorchCurve::kExponential>},
    {"linear_lr", ReadTorchSchedule<TorchCurve::kLinear>},
    {"multi_step_lr", ReadTorchSchedule<TorchCurve::kMultiStep>},
    {"one_cycle_lr", ReadOneCycle},
    {"polynomial_lr", ReadTorchSchedule<TorchCurve::kPolynomial>},
    {"reduce_lr_on_plateau", ReadPlateau},
    {"step_lr", ReadTorchSchedule<TorchCurve::kStep>},
};

const TorchRow* FindTorch(absl::string_view name) {
  const auto* row = std::find_if(std::begin(kTorchSchedulers), std::end(kTorchSchedulers),
                                 [&](const TorchRow& candidate) { return name == candidate.name; });
  return row == std::end(kTorchSchedulers) ? nullptr : row;
}

}  // namespace

std::vector<std::string> SchedulerNames() {
  std::vector<std::string> names = ScheduleNames();
  for (const TorchRow& row : kTorchSchedulers) names.emplace_back(row.name);
  return names;
}

std::vector<SchedulerFactory> ReadSchedulers(ConfigMap root, const PluginTables& plugins, bool composer_compat) {
  std::vector<ConfigMap> configs = root.MapList("schedulers");
  std::vector<std::string> names;
  for (ConfigMap& config : configs) names.push_back(config.Has("name") ? config.String("name") : "");
  const bool any_torch = std::any_of(names.begin(), names.end(), [](const auto& name) { return FindTorch(name); });
  const bool every_batch = root.Bool("step_schedulers_every_batch", !any_torch);
  std::vector<SchedulerFactory> factories;
  for (size_t i = 0; i < configs.size(); ++i) {
    if (const TorchRow* row = FindTorch(names[i])) {
      factories.push_back(row->read(configs[i], every_batch));
    } else if (const absl::StatusOr<ScheduleSpec> spec = ScheduleByName(names[i]); spec.ok()) {
      factories.push_back(ReadComposerSchedule(configs[i], *spec, every_batch, composer_compat));
    } else {
      factories.push_back(ReadNamed<SchedulerFactory>(configs[i], {}, plugins.schedulers, SchedulerNames()));
    }
  }
  return factories;
}

}  // namespace composer

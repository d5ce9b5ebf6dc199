// SPDX-License-Identifier: Apache-2.0
#include "worker/job_optim.h"

#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/decoupled_sgdw.h"
#include "trainer/optim/param_groups.h"
#include "trainer/optim/schedules.h"
#include "trainer/torch_status.h"
#include "worker/job_time.h"
#include "worker/named_reader.h"

namespace composer {
namespace {

std::vector<ParamGroup> GroupsOf(const Model& model, const ParamGroupOptions& options) {
  NamedTensors parameters;
  for (const auto& item : model.named_parameters()) parameters.emplace_back(item.key(), item.value());
  absl::StatusOr<std::vector<ParamGroup>> groups = MakeParamGroups(parameters, options);
  ThrowIfError(groups.status());
  return *std::move(groups);
}

ParamGroupOptions ReadGroups(ConfigMap& config, double usual_lr, double usual_decay) {
  ParamGroupOptions options;
  options.lr = config.Double("lr", usual_lr, {.min = 0});
  options.weight_decay = config.Double("weight_decay", usual_decay, {.min = 0});
  options.no_decay_on_bias_and_norm = config.Bool("no_decay_on_bias_and_norm", false);
  for (ConfigMap rule : config.MapList("param_groups")) {
    ParamGroupRule read;
    read.pattern = rule.String("pattern");
    if (rule.Has("lr")) read.lr = rule.RequiredDouble("lr", {.min = 0});
    if (rule.Has("weight_decay")) read.weight_decay = rule.RequiredDouble("weight_decay", {.min = 0});
    options.rules.push_back(read);
  }
  return options;
}

OptimizerFactory ReadAdamW(ConfigMap config) {
  const ParamGroupOptions groups = ReadGroups(config, 1e-3, 1e-5);
  AdamWOptions options;
  const std::vector<double> betas = config.DoubleList("betas", {options.beta1, options.beta2});
  if (betas.size() != 2) config.Reject("betas", "expected two numbers");
  if (betas.size() == 2) options.beta1 = betas[0], options.beta2 = betas[1];
  options.eps = config.Double("eps", options.eps);
  options.amsgrad = config.Bool("amsgrad", options.amsgrad);
  if (const absl::Status status = Validate(options); !status.ok()) config.Reject("name", status.message());
  return [=](Model& model) { return std::make_unique<DecoupledAdamW>(GroupsOf(model, groups), options); };
}

OptimizerFactory ReadSgdw(ConfigMap config) {
  const ParamGroupOptions groups = ReadGroups(config, 0.1, 0);
  SgdwOptions options;
  options.momentum = config.Double("momentum", options.momentum);
  options.dampening = config.Double("dampening", options.dampening);
  options.nesterov = config.Bool("nesterov", options.nesterov);
  if (const absl::Status status = Validate(options); !status.ok()) config.Reject("name", status.message());
  return [=](Model& model) { return std::make_unique<DecoupledSGDW>(GroupsOf(model, groups), options); };
}

void ReadScheduleTime(ConfigMap& config, absl::string_view key, Time& time) {
  if (config.Has(key)) time = ReadTime(config, key, "");
}

// Only the keys that the curve reads are known.
void ReadCurve(ConfigMap& config, ScheduleSpec& spec) {
  const auto number = [&](absl::string_view key, double& value) { value = config.Double(key, value); };
  switch (spec.curve) {
    case Curve::kConstant:
      config.Has("alpha") ? number("alpha", spec.alpha_i) : void();
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
      for (const std::string& text : config.StringList("milestones", {})) {
        const absl::StatusOr<Time> parsed = ParseTime(text);
        if (!parsed.ok()) config.Reject("milestones", parsed.status().message());
        if (parsed.ok()) spec.milestones.push_back(*parsed);
      }
      break;
    case Curve::kWarmRestarts:
      number("t_mult", spec.t_mult);
      number("alpha_f", spec.alpha_f);
      ReadScheduleTime(config, "t_0", spec.period);
      break;
  }
}

constexpr NamedReader<OptimizerFactory> kOptimizers[] = {
    {"decoupled_adamw", ReadAdamW},
    {"decoupled_sgdw", ReadSgdw},
};

}  // namespace

std::vector<std::string> OptimizerNames() { return NamesOf(kOptimizers); }

OptimizerFactory ReadOptimizer(ConfigMap root, const PluginTables& plugins) {
  ConfigMap config = root.Map("optimizers");
  return config.exists() ? ReadNamed<OptimizerFactory>(config, kOptimizers, plugins.optimizers) : ReadSgdw(config);
}

std::vector<SchedulerFactory> ReadSchedulers(ConfigMap root, const PluginTables& plugins) {
  std::vector<SchedulerFactory> factories;
  for (ConfigMap config : root.MapList("schedulers")) {
    absl::StatusOr<ScheduleSpec> spec = ScheduleByName(config.Has("name") ? config.String("name") : "");
    if (!spec.ok()) {
      factories.push_back(ReadNamed<SchedulerFactory>(config, {}, plugins.schedulers, ScheduleNames()));
      continue;
    }
    ReadCurve(config, *spec);
    if (spec->t_warmup.has_value()) {
      ReadScheduleTime(config, "t_warmup", *spec->t_warmup);
      spec->scale_warmup = config.Bool("scale_warmup", false);
    }
    factories.push_back([spec = *spec] { return MakeScheduler(spec); });
  }
  return factories;
}

}  // namespace composer

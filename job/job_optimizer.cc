// SPDX-License-Identifier: Apache-2.0
#include "job/job_optimizer.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "job/named_reader.h"
#include "trainer/algorithms/schedule_free_adamw.h"
#include "trainer/optim/recipes.h"

namespace composer {
namespace {

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

// Returns the two numbers of a key.
std::pair<double, double> ReadPair(ConfigMap& config, const std::string& key, double first, double second) {
  const std::vector<double> read = config.DoubleList(key, {first, second});
  if (read.size() == 2) return {read[0], read[1]};
  config.Reject(key, "expected two numbers");
  return {first, second};
}

void ReadBetas(ConfigMap& config, double& beta1, double& beta2) {
  std::tie(beta1, beta2) = ReadPair(config, "betas", beta1, beta2);
}

template <typename Options>
const Options& Valid(ConfigMap& config, const Options& options) {
  if (const absl::Status status = Validate(options); !status.ok()) config.Reject("name", status.message());
  return options;
}

template <typename Options>
Options ReadAdamOptions(ConfigMap& config) {
  Options options;
  ReadBetas(config, options.beta1, options.beta2);
  options.eps = config.Double("eps", options.eps);
  options.amsgrad = config.Bool("amsgrad", options.amsgrad);
  return options;
}

// Muon's own AdamW has no such key.
template <typename Options>
Options ReadAdamWithState(ConfigMap& config) {
  auto options = ReadAdamOptions<Options>(config);
  options.in_backward = config.Bool("in_backward", options.in_backward);
  options.bf16_state = config.Choice("state_dtype", {"float32", "bfloat16"}, "float32") == "bfloat16";
  return options;
}

OptimizerFactory ReadAdam(ConfigMap config) {
  return Adam(ReadGroups(config, 1e-3, 0), Valid(config, ReadAdamWithState<AdamOptions>(config)));
}

OptimizerFactory ReadAdamW(ConfigMap config) {
  return AdamW(ReadGroups(config, 1e-3, 1e-2), Valid(config, ReadAdamWithState<AdamOptions>(config)));
}

OptimizerFactory ReadDecoupledAdamW(ConfigMap config) {
  return DecoupledAdamW(ReadGroups(config, 1e-3, 1e-5), Valid(config, ReadAdamWithState<AdamWOptions>(config)));
}

SgdOptions ReadSgdOptions(ConfigMap& config) {
  SgdOptions options;
  options.momentum = config.Double("momentum", options.momentum);
  options.dampening = config.Double("dampening", options.dampening);
  options.nesterov = config.Bool("nesterov", options.nesterov);
  return options;
}

OptimizerFactory ReadSgd(ConfigMap config) {
  return SGD(ReadGroups(config, 1e-3, 0), Valid(config, ReadSgdOptions(config)));
}

OptimizerFactory ReadDecoupledSgdw(ConfigMap config) {
  return DecoupledSGDW(ReadGroups(config, 0.1, 0), Valid(config, ReadSgdOptions(config)));
}

OptimizerFactory ReadRmsprop(ConfigMap config) {
  RmspropOptions options;
  options.alpha = config.Double("alpha", options.alpha);
  options.eps = config.Double("eps", options.eps);
  options.momentum = config.Double("momentum", options.momentum);
  options.centered = config.Bool("centered", options.centered);
  return RMSprop(ReadGroups(config, 1e-2, 0), Valid(config, options));
}

OptimizerFactory ReadLbfgs(ConfigMap config) {
  LbfgsOptions options;
  const double lr = config.Double("lr", 1, {.min = 0});
  options.max_iter = config.Int("max_iter", options.max_iter, {.min = 1});
  if (config.Has("max_eval")) options.max_eval = config.Int("max_eval", 1, {.min = 1});
  options.tolerance_grad = config.Double("tolerance_grad", options.tolerance_grad, {.min = 0});
  options.tolerance_change = config.Double("tolerance_change", options.tolerance_change, {.min = 0});
  options.history_size = config.Int("history_size", options.history_size, {.min = 1});
  options.strong_wolfe = config.Choice("line_search_fn", {"none", "strong_wolfe"}, "none") == "strong_wolfe";
  return LBFGS(lr, Valid(config, options));
}

OptimizerFactory ReadAdagrad(ConfigMap config) {
  AdagradOptions options;
  options.lr_decay = config.Double("lr_decay", options.lr_decay);
  options.initial_accumulator_value = config.Double("initial_accumulator_value", options.initial_accumulator_value);
  options.eps = config.Double("eps", options.eps);
  return Adagrad(ReadGroups(config, 1e-2, 0), Valid(config, options));
}

OptimizerFactory ReadAdadelta(ConfigMap config) {
  AdadeltaOptions options;
  options.rho = config.Double("rho", options.rho);
  options.eps = config.Double("eps", options.eps);
  return Adadelta(ReadGroups(config, 1, 0), Valid(config, options));
}

OptimizerFactory ReadAdamax(ConfigMap config) {
  AdamaxOptions options;
  ReadBetas(config, options.beta1, options.beta2);
  options.eps = config.Double("eps", options.eps);
  return Adamax(ReadGroups(config, 2e-3, 0), Valid(config, options));
}

OptimizerFactory ReadNAdam(ConfigMap config) {
  NAdamOptions options;
  ReadBetas(config, options.beta1, options.beta2);
  options.eps = config.Double("eps", options.eps);
  options.momentum_decay = config.Double("momentum_decay", options.momentum_decay);
  options.decoupled_weight_decay = config.Bool("decoupled_weight_decay", options.decoupled_weight_decay);
  return NAdam(ReadGroups(config, 2e-3, 0), Valid(config, options));
}

OptimizerFactory ReadRAdam(ConfigMap config) {
  RAdamOptions options;
  ReadBetas(config, options.beta1, options.beta2);
  options.eps = config.Double("eps", options.eps);
  options.decoupled_weight_decay = config.Bool("decoupled_weight_decay", options.decoupled_weight_decay);
  return RAdam(ReadGroups(config, 1e-3, 0), Valid(config, options));
}

OptimizerFactory ReadAsgd(ConfigMap config) {
  AsgdOptions options;
  options.lambd = config.Double("lambd", options.lambd);
  options.alpha = config.Double("alpha", options.alpha);
  options.t0 = config.Double("t0", options.t0);
  return ASGD(ReadGroups(config, 1e-2, 0), Valid(config, options));
}

OptimizerFactory ReadRprop(ConfigMap config) {
  RpropOptions options;
  std::tie(options.eta_minus, options.eta_plus) = ReadPair(config, "etas", options.eta_minus, options.eta_plus);
  std::tie(options.min_step, options.max_step) = ReadPair(config, "step_sizes", options.min_step, options.max_step);
  return Rprop({.lr = config.Double("lr", 1e-2, {.min = 0}), .weight_decay = 0}, Valid(config, options));
}

OptimizerFactory ReadAdafactor(ConfigMap config) {
  AdafactorOptions options;
  options.beta2_decay = config.Double("beta2_decay", options.beta2_decay);
  if (config.Has("eps")) {
    const auto [eps1, eps2] = ReadPair(config, "eps", 0, options.eps2);
    options.eps1 = eps1;
    options.eps2 = eps2;
  }
  options.d = config.Double("d", options.d);
  return Adafactor(ReadGroups(config, 1e-2, 0), Valid(config, options));
}

OptimizerFactory ReadLion(ConfigMap config) {
  LionOptions options;
  ReadBetas(config, options.beta1, options.beta2);
  return Lion(ReadGroups(config, 1e-4, 0), Valid(config, options));
}

MuonOptions ReadMuonOptions(ConfigMap& config) {
  MuonOptions options;
  options.momentum = config.Double("momentum", options.momentum);
  options.nesterov = config.Bool("nesterov", options.nesterov);
  NewtonSchulz& iteration = options.newton_schulz;
  iteration.steps = static_cast<int>(config.Int("ns_steps", iteration.steps, {.min = 0, .max = 99}));
  iteration.eps = config.Double("eps", iteration.eps);
  const std::array<double, 3>& usual = iteration.coefficients;
  const std::vector<double> coefficients = config.DoubleList("ns_coefficients", {usual[0], usual[1], usual[2]});
  if (coefficients.size() != 3) config.Reject("ns_coefficients", "expected three numbers");
  if (coefficients.size() == 3) std::copy(coefficients.begin(), coefficients.end(), iteration.coefficients.begin());
  const std::string adjust = config.Choice("adjust_lr_fn", {"original", "match_rms_adamw"}, "original");
  options.adjust_lr_fn = adjust == "original" ? MuonLr::kOriginal : MuonLr::kMatchRmsAdamW;
  return options;
}

OptimizerFactory ReadMuonWith(ConfigMap& config, MuonOptions options) {
  MuonGroupOptions groups;
  const ParamGroupOptions read = ReadGroups(config, groups.lr, groups.weight_decay);
  groups.lr = read.lr;
  groups.weight_decay = read.weight_decay;
  groups.no_decay_on_bias_and_norm = read.no_decay_on_bias_and_norm;
  groups.rules = read.rules;
  ConfigMap adamw = config.Map("adamw");
  options.adamw = ReadAdamOptions<AdamOptions>(adamw);
  groups.adamw_lr = adamw.Double("lr", groups.adamw_lr, {.min = 0});
  groups.adamw_weight_decay = adamw.Double("weight_decay", groups.adamw_weight_decay, {.min = 0});
  groups.adamw_patterns = adamw.StringList("patterns", groups.adamw_patterns);
  return options.second_beta ? NorMuon(groups, Valid(config, options)) : Muon(groups, Valid(config, options));
}

OptimizerFactory ReadMuon(ConfigMap config) { return ReadMuonWith(config, ReadMuonOptions(config)); }

OptimizerFactory ReadNorMuon(ConfigMap config) {
  MuonOptions options = ReadMuonOptions(config);
  options.second_beta = config.Double("beta2", 0.95);
  return ReadMuonWith(config, options);
}

OptimizerFactory ReadScheduleFreeAdamW(ConfigMap config) {
  ScheduleFreeOptions options;
  ReadBetas(config, options.beta1, options.beta2);
  options.eps = config.Double("eps", options.eps);
  options.r = config.Double("r", options.r);
  options.weight_lr_power = config.Double("weight_lr_power", options.weight_lr_power);
  return ScheduleFreeAdamW(ReadGroups(config, 0.0025, 0), Valid(config, options));
}

constexpr NamedReader<OptimizerFactory> kOptimizers[] = {
    {"adadelta", ReadAdadelta},
    {"adafactor", ReadAdafactor},
    {"adagrad", ReadAdagrad},
    {"adam", ReadAdam},
    {"adamax", ReadAdamax},
    {"adamw", ReadAdamW},
    {"asgd", ReadAsgd},
    {"decoupled_adamw", ReadDecoupledAdamW},
    {"decoupled_sgdw", ReadDecoupledSgdw},
    {"lbfgs", ReadLbfgs},
    {"lion", ReadLion},
    {"muon", ReadMuon},
    {"nadam", ReadNAdam},
    {"normuon", ReadNorMuon},
    {"radam", ReadRAdam},
    {"rmsprop", ReadRmsprop},
    {"rprop", ReadRprop},
    {"schedule_free_adamw", ReadScheduleFreeAdamW},
    {"sgd", ReadSgd},
};

}  // namespace

std::vector<std::string> OptimizerNames() { return NamesOf(kOptimizers); }

OptimizerFactory ReadOptimizer(ConfigMap root, const PluginTables& plugins) {
  ConfigMap config = root.Map("optimizers");
  if (!config.exists()) return ReadDecoupledSgdw(config);
  return ReadNamed<OptimizerFactory>(config, kOptimizers, plugins.optimizers);
}

}  // namespace composer

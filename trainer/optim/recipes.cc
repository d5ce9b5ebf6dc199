// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/recipes.h"

#include <utility>

#include "trainer/core/model.h"
#include "trainer/core/torch_status.h"
#include "trainer/optim/model_params.h"

namespace composer {
namespace {

template <typename Made, typename Options>
OptimizerFactory Recipe(const ParamGroupOptions& groups, const Options& options) {
  return [=](Model& model) { return std::make_unique<Made>(ParamGroupsOf(model, groups), options); };
}

ParamGroupOptions Rate(double lr, double weight_decay) { return {.lr = lr, .weight_decay = weight_decay}; }

std::unique_ptr<Scheduler> Schedule(Curve curve, ScheduleSpec spec) {
  spec.curve = curve;
  return MakeScheduler(std::move(spec));
}

}  // namespace

OptimizerFactory Adam(const ParamGroupOptions& groups, const AdamOptions& options) {
  return Recipe<AdamOptimizer>(groups, options);
}
OptimizerFactory Adam(double lr, const AdamOptions& options) { return Adam(Rate(lr, 0), options); }

OptimizerFactory AdamW(const ParamGroupOptions& groups, const AdamOptions& options) {
  return Recipe<AdamWOptimizer>(groups, options);
}
OptimizerFactory AdamW(double lr, const AdamOptions& options) { return AdamW(Rate(lr, 1e-2), options); }

OptimizerFactory DecoupledAdamW(const ParamGroupOptions& groups, const AdamWOptions& options) {
  return Recipe<DecoupledAdamWOptimizer>(groups, options);
}
OptimizerFactory DecoupledAdamW(double lr, const AdamWOptions& options) {
  return DecoupledAdamW(Rate(lr, 1e-5), options);
}

OptimizerFactory SGD(const ParamGroupOptions& groups, const SgdOptions& options) {
  return Recipe<SgdOptimizer>(groups, options);
}
OptimizerFactory SGD(double lr, const SgdOptions& options) { return SGD(Rate(lr, 0), options); }

OptimizerFactory DecoupledSGDW(const ParamGroupOptions& groups, const SgdwOptions& options) {
  return Recipe<DecoupledSgdwOptimizer>(groups, options);
}
OptimizerFactory DecoupledSGDW(double lr, const SgdwOptions& options) { return DecoupledSGDW(Rate(lr, 0), options); }

OptimizerFactory RMSprop(const ParamGroupOptions& groups, const RmspropOptions& options) {
  return Recipe<RmspropOptimizer>(groups, options);
}
OptimizerFactory RMSprop(double lr, const RmspropOptions& options) { return RMSprop(Rate(lr, 0), options); }

OptimizerFactory Lion(const ParamGroupOptions& groups, const LionOptions& options) {
  return Recipe<LionOptimizer>(groups, options);
}
OptimizerFactory Lion(double lr, const LionOptions& options) { return Lion(Rate(lr, 0), options); }

OptimizerFactory Adagrad(const ParamGroupOptions& groups, const AdagradOptions& options) {
  return Recipe<AdagradOptimizer>(groups, options);
}
OptimizerFactory Adagrad(double lr, const AdagradOptions& options) { return Adagrad(Rate(lr, 0), options); }

OptimizerFactory Adadelta(const ParamGroupOptions& groups, const AdadeltaOptions& options) {
  return Recipe<AdadeltaOptimizer>(groups, options);
}
OptimizerFactory Adadelta(double lr, const AdadeltaOptions& options) { return Adadelta(Rate(lr, 0), options); }

OptimizerFactory Adamax(const ParamGroupOptions& groups, const AdamaxOptions& options) {
  return Recipe<AdamaxOptimizer>(groups, options);
}
OptimizerFactory Adamax(double lr, const AdamaxOptions& options) { return Adamax(Rate(lr, 0), options); }

OptimizerFactory NAdam(const ParamGroupOptions& groups, const NAdamOptions& options) {
  return Recipe<NAdamOptimizer>(groups, options);
}
OptimizerFactory NAdam(double lr, const NAdamOptions& options) { return NAdam(Rate(lr, 0), options); }

OptimizerFactory RAdam(const ParamGroupOptions& groups, const RAdamOptions& options) {
  return Recipe<RAdamOptimizer>(groups, options);
}
OptimizerFactory RAdam(double lr, const RAdamOptions& options) { return RAdam(Rate(lr, 0), options); }

OptimizerFactory ASGD(const ParamGroupOptions& groups, const AsgdOptions& options) {
  return Recipe<AsgdOptimizer>(groups, options);
}
OptimizerFactory ASGD(double lr, const AsgdOptions& options) { return ASGD(Rate(lr, 0), options); }

OptimizerFactory Rprop(const ParamGroupOptions& groups, const RpropOptions& options) {
  return Recipe<RpropOptimizer>(groups, options);
}
OptimizerFactory Rprop(double lr, const RpropOptions& options) { return Rprop(Rate(lr, 0), options); }

OptimizerFactory Adafactor(const ParamGroupOptions& groups, const AdafactorOptions& options) {
  return Recipe<AdafactorOptimizer>(groups, options);
}
OptimizerFactory Adafactor(double lr, const AdafactorOptions& options) { return Adafactor(Rate(lr, 0), options); }

OptimizerFactory LBFGS(double lr, const LbfgsOptions& options) { return Recipe<LbfgsOptimizer>(Rate(lr, 0), options); }

OptimizerFactory Muon(const MuonGroupOptions& groups, const MuonOptions& options) {
  return [=](Model& model) {
    absl::StatusOr<MuonGroups> made = MakeMuonGroups(NamedParametersOf(model), groups);
    ThrowIfError(made.status());
    return std::make_unique<MuonOptimizer>(*std::move(made), options);
  };
}

OptimizerFactory NorMuon(const MuonGroupOptions& groups, MuonOptions options) {
  if (!options.second_beta) options.second_beta = 0.95;
  return Muon(groups, options);
}

std::unique_ptr<Scheduler> ConstantSchedule(ScheduleSpec spec) { return Schedule(Curve::kConstant, std::move(spec)); }
std::unique_ptr<Scheduler> LinearSchedule(ScheduleSpec spec) { return Schedule(Curve::kLinear, std::move(spec)); }
std::unique_ptr<Scheduler> CosineAnnealing(ScheduleSpec spec) { return Schedule(Curve::kCosine, std::move(spec)); }
std::unique_ptr<Scheduler> CosineAnnealingWarmRestarts(ScheduleSpec spec) {
  return Schedule(Curve::kWarmRestarts, std::move(spec));
}
std::unique_ptr<Scheduler> PolynomialSchedule(ScheduleSpec spec) {
  return Schedule(Curve::kPolynomial, std::move(spec));
}
std::unique_ptr<Scheduler> ExponentialSchedule(ScheduleSpec spec) {
  return Schedule(Curve::kExponential, std::move(spec));
}
std::unique_ptr<Scheduler> StepSchedule(ScheduleSpec spec) { return Schedule(Curve::kStep, std::move(spec)); }
std::unique_ptr<Scheduler> MultiStepSchedule(ScheduleSpec spec) { return Schedule(Curve::kMultiStep, std::move(spec)); }

}  // namespace composer

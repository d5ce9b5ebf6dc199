// Optimizers and schedules as people say them:
//   options.make_optimizer = AdamW(0.02);
//   options.make_optimizer = DecoupledAdamW({.lr = 1e-3, .no_decay_on_bias_and_norm = true}, {.beta2 = 0.99});
//   options.schedulers.push_back(CosineAnnealing({.alpha_f = 0.1, .t_warmup = Time::Batches(100)}));
// Defaults are those of the YAML keys `optimizers` and `schedulers`: torch's for torch's optimizers, Composer's for its
// own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/core/optimizer.h"
#include "trainer/core/scheduler.h"
#include "trainer/optim/adafactor.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/decoupled_sgdw.h"
#include "trainer/optim/lbfgs.h"
#include "trainer/optim/lion.h"
#include "trainer/optim/muon.h"
#include "trainer/optim/param_groups.h"
#include "trainer/optim/rmsprop.h"
#include "trainer/optim/schedule/schedules.h"
#include "trainer/optim/sgd.h"
#include "trainer/optim/torch_optimizers.h"

namespace composer {

// A factory throws StatusError for groups that MakeParamGroups refuses, c10::ValueError for options out of range.
OptimizerFactory Adam(double lr, const AdamOptions& options = {});
OptimizerFactory Adam(const ParamGroupOptions& groups, const AdamOptions& options = {});
OptimizerFactory AdamW(double lr, const AdamOptions& options = {});  // weight_decay 0.01
OptimizerFactory AdamW(const ParamGroupOptions& groups, const AdamOptions& options = {});
OptimizerFactory DecoupledAdamW(double lr, const AdamWOptions& options = {});  // weight_decay 1e-5
OptimizerFactory DecoupledAdamW(const ParamGroupOptions& groups, const AdamWOptions& options = {});
OptimizerFactory SGD(double lr, const SgdOptions& options = {});
OptimizerFactory SGD(const ParamGroupOptions& groups, const SgdOptions& options = {});
OptimizerFactory DecoupledSGDW(double lr, const SgdwOptions& options = {});
OptimizerFactory DecoupledSGDW(const ParamGroupOptions& groups, const SgdwOptions& options = {});
OptimizerFactory RMSprop(double lr, const RmspropOptions& options = {});
OptimizerFactory RMSprop(const ParamGroupOptions& groups, const RmspropOptions& options = {});
OptimizerFactory Lion(double lr, const LionOptions& options = {});
OptimizerFactory Lion(const ParamGroupOptions& groups, const LionOptions& options = {});
OptimizerFactory Adagrad(double lr, const AdagradOptions& options = {});
OptimizerFactory Adagrad(const ParamGroupOptions& groups, const AdagradOptions& options = {});
OptimizerFactory Adadelta(double lr, const AdadeltaOptions& options = {});
OptimizerFactory Adadelta(const ParamGroupOptions& groups, const AdadeltaOptions& options = {});
OptimizerFactory Adamax(double lr, const AdamaxOptions& options = {});
OptimizerFactory Adamax(const ParamGroupOptions& groups, const AdamaxOptions& options = {});
OptimizerFactory NAdam(double lr, const NAdamOptions& options = {});
OptimizerFactory NAdam(const ParamGroupOptions& groups, const NAdamOptions& options = {});
OptimizerFactory RAdam(double lr, const RAdamOptions& options = {});
OptimizerFactory RAdam(const ParamGroupOptions& groups, const RAdamOptions& options = {});
OptimizerFactory ASGD(double lr, const AsgdOptions& options = {});
OptimizerFactory ASGD(const ParamGroupOptions& groups, const AsgdOptions& options = {});
OptimizerFactory Rprop(double lr, const RpropOptions& options = {});
OptimizerFactory Rprop(const ParamGroupOptions& groups, const RpropOptions& options = {});
OptimizerFactory Adafactor(double lr, const AdafactorOptions& options = {});
OptimizerFactory Adafactor(const ParamGroupOptions& groups, const AdafactorOptions& options = {});
OptimizerFactory LBFGS(double lr = 1, const LbfgsOptions& options = {});
// Matrices by Muon, all other parameters by AdamW.
OptimizerFactory Muon(const MuonGroupOptions& groups = {}, const MuonOptions& options = {});
// The same with second_beta, 0.95 if the options have none.
OptimizerFactory NorMuon(const MuonGroupOptions& groups = {}, MuonOptions options = {});

// The schedule of this curve; `spec.curve` is ignored. With t_warmup it begins with a linear warm-up.
std::unique_ptr<Scheduler> ConstantSchedule(ScheduleSpec spec = {});
std::unique_ptr<Scheduler> LinearSchedule(ScheduleSpec spec = {});
std::unique_ptr<Scheduler> CosineAnnealing(ScheduleSpec spec = {});
std::unique_ptr<Scheduler> CosineAnnealingWarmRestarts(ScheduleSpec spec);
std::unique_ptr<Scheduler> PolynomialSchedule(ScheduleSpec spec = {});
std::unique_ptr<Scheduler> ExponentialSchedule(ScheduleSpec spec = {});
std::unique_ptr<Scheduler> StepSchedule(ScheduleSpec spec);
std::unique_ptr<Scheduler> MultiStepSchedule(ScheduleSpec spec);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/lbfgs.h"

#include <torch/optim/lbfgs.h>
#include <torch/types.h>

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

// Thrown through torch's step when there must be no update.
struct NoUpdate {};

enum Number { kFuncEvals, kNIter, kT, kPrevLoss, kHistory, kNumNumbers };

void CopyRows(const std::deque<at::Tensor>& from, const at::Tensor& to) {
  for (size_t i = 0; i < from.size(); ++i) to[static_cast<int64_t>(i)].copy_(from[i]);
}

std::deque<at::Tensor> Rows(const at::Tensor& from, int64_t count) {
  std::deque<at::Tensor> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(from[i].clone());
  return rows;
}

}  // namespace

struct LbfgsOptimizer::Torch {
  torch::optim::LBFGS lbfgs;
  torch::optim::LBFGSOptions& options() {
    return static_cast<torch::optim::LBFGSOptions&>(lbfgs.param_groups()[0].options());
  }
};

absl::Status Validate(const LbfgsOptions& options) {
  const auto refuse = [](absl::string_view field, auto value, absl::string_view range) {
    return absl::InvalidArgumentError(absl::StrCat("lbfgs: ", field, " is ", value, ", it must be ", range));
  };
  if (options.max_iter < 1) return refuse("max_iter", options.max_iter, "at least 1");
  if (options.max_eval < 0) return refuse("max_eval", options.max_eval, "at least 1, or 0 for max_iter * 5 / 4");
  if (options.history_size < 1) return refuse("history_size", options.history_size, "at least 1");
  if (!(options.tolerance_grad >= 0)) return refuse("tolerance_grad", options.tolerance_grad, "at least 0");
  if (!(options.tolerance_change >= 0)) return refuse("tolerance_change", options.tolerance_change, "at least 0");
  return absl::OkStatus();
}

LbfgsOptimizer::LbfgsOptimizer(std::vector<ParamGroup> groups, const LbfgsOptions& options)
    : Optimizer(std::move(groups)), options_(options) {
  TORCH_CHECK_VALUE(groups_.size() == 1 && groups_[0].weight_decay == 0,
                    "lbfgs takes one group of parameters, without weight_decay; there are ", groups_.size(), " groups");
  params_ = groups_[0].params;
  TORCH_CHECK_VALUE(!params_.empty(), "lbfgs: there is no parameter to train");
  int64_t numel = 0;
  for (const at::Tensor& param : params_) {
    TORCH_CHECK_VALUE(param.options().type_equal(params_[0].options()),
                      "lbfgs: all parameters must have one dtype and device");
    numel += param.numel();
  }
  const auto like = params_[0].options().requires_grad(false);
  d_ = torch::zeros({numel}, like);
  prev_flat_grad_ = torch::zeros({numel}, like);
  old_dirs_ = torch::zeros({options.history_size, numel}, like);
  old_stps_ = torch::zeros({options.history_size, numel}, like);
  ro_ = torch::zeros({options.history_size}, like);
  h_diag_ = torch::ones({}, like);
  numbers_ = torch::zeros({kNumNumbers}, torch::dtype(at::kDouble));
  torch::optim::LBFGSOptions defaults(groups_[0].lr);
  defaults.max_iter(options.max_iter).history_size(options.history_size);
  if (options.max_eval > 0) defaults.max_eval(options.max_eval);
  defaults.tolerance_grad(options.tolerance_grad).tolerance_change(options.tolerance_change);
  if (options.strong_wolfe) defaults.line_search_fn("strong_wolfe");
  torch_ = std::make_unique<Torch>(Torch{torch::optim::LBFGS(params_, defaults)});
}

LbfgsOptimizer::~LbfgsOptimizer() = default;

void LbfgsOptimizer::Step() { TORCH_CHECK(false, "lbfgs: a step needs a closure"); }

// torch keeps its state where checkpoints do not see it; it is taken from the tensors of state() for every step.
void LbfgsOptimizer::ReadState() {
  const auto* numbers = static_cast<const double*>(numbers_.const_data_ptr());
  auto state = std::make_unique<torch::optim::LBFGSParamState>();
  state->func_evals(static_cast<int64_t>(numbers[kFuncEvals]));
  state->n_iter(static_cast<int64_t>(numbers[kNIter]));
  state->t(numbers[kT]).prev_loss(numbers[kPrevLoss]);
  if (state->n_iter() > 0) {
    const auto history = static_cast<int64_t>(numbers[kHistory]);
    state->d(d_.clone()).H_diag(h_diag_.clone()).prev_flat_grad(prev_flat_grad_.clone());
    state->old_dirs(Rows(old_dirs_, history)).old_stps(Rows(old_stps_, history)).ro(Rows(ro_, history));
  }
  torch_->lbfgs.state()[params_[0].unsafeGetTensorImpl()] = std::move(state);
}

void LbfgsOptimizer::WriteState() {
  const auto& state =
      static_cast<const torch::optim::LBFGSParamState&>(*torch_->lbfgs.state().at(params_[0].unsafeGetTensorImpl()));
  auto* numbers = static_cast<double*>(numbers_.mutable_data_ptr());
  numbers[kFuncEvals] = static_cast<double>(state.func_evals());
  numbers[kNIter] = static_cast<double>(state.n_iter());
  numbers[kT] = state.t();
  numbers[kPrevLoss] = state.prev_loss();
  numbers[kHistory] = static_cast<double>(state.old_dirs().size());
  if (state.n_iter() == 0) return;  // the gradient was below tolerance_grad at once
  d_.copy_(state.d());
  h_diag_.copy_(state.H_diag().reshape({}));
  prev_flat_grad_.copy_(state.prev_flat_grad());
  CopyRows(state.old_dirs(), old_dirs_);
  CopyRows(state.old_stps(), old_stps_);
  CopyRows(state.ro(), ro_);
}

void LbfgsOptimizer::StepWith(LossClosure& closure) {
  const torch::NoGradGuard no_grad;
  torch_->options().lr(groups_[0].lr);
  std::vector<at::Tensor> before;
  for (const at::Tensor& param : params_) before.push_back(param.detach().clone());
  ReadState();
  try {
    torch_->lbfgs.step([&]() -> at::Tensor {
      const std::optional<double> loss = closure.Evaluate(LossClosure::Gradients::kOverRanks);
      if (!loss) throw NoUpdate();
      return torch::scalar_tensor(*loss, torch::dtype(at::kDouble));
    });
  } catch (const NoUpdate&) {
    at::_foreach_copy_(params_, before);
    return;
  } catch (...) {
    at::_foreach_copy_(params_, before);
    throw;
  }
  WriteState();
}

NamedTensors LbfgsOptimizer::state() {
  return {{"group0/d", d_},
          {"group0/prev_flat_grad", prev_flat_grad_},
          {"group0/old_dirs", old_dirs_},
          {"group0/old_stps", old_stps_},
          {"group0/ro", ro_},
          {"group0/H_diag", h_diag_},
          {"group0/numbers", numbers_}};
}

}  // namespace composer

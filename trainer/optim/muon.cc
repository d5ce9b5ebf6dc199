// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/muon.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 24;  // of matrices that are orthogonalised together

std::vector<ParamGroup> Join(MuonGroups groups) {
  std::vector<ParamGroup> all = std::move(groups.matrices);
  for (ParamGroup& group : groups.others) all.push_back(std::move(group));
  return all;
}

}  // namespace

absl::Status Validate(const MuonOptions& options) {
  const auto bad = [](absl::string_view field, double value, absl::string_view allowed) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", must be ", allowed));
  };
  if (!(options.momentum >= 0 && options.momentum < 1)) return bad("momentum", options.momentum, "in [0, 1)");
  const NewtonSchulz& iteration = options.newton_schulz;
  if (iteration.steps < 0 || iteration.steps >= 100) return bad("ns_steps", iteration.steps, "from 0 to 99");
  if (!(iteration.eps > 0)) return bad("eps", iteration.eps, "more than 0");
  return Annotate(Validate(options.adamw), "adamw");
}

double MuonLrRatio(MuonLr adjust, int64_t rows, int64_t columns) {
  const auto a = static_cast<double>(rows), b = static_cast<double>(columns);
  return adjust == MuonLr::kOriginal ? std::sqrt(std::max(1.0, a / b)) : 0.2 * std::sqrt(std::max(a, b));
}

MuonOptimizer::MuonOptimizer(MuonGroups groups, const MuonOptions& options) : Optimizer({}), options_(options) {
  const absl::Status valid = Validate(options);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
  const torch::NoGradGuard no_grad;
  const size_t num_matrix_groups = groups.matrices.size();
  groups_ = Join(std::move(groups));
  for (size_t i = 0; i < groups_.size(); ++i) {
    ParamGroup& group = groups_[i];
    if (i >= num_matrix_groups) {
      others_.push_back(std::make_unique<AdamGroup>(group, options.adamw, AdamDecay::kDecoupled));
      continue;
    }
    for (size_t n = 0; n < group.params.size(); ++n) {
      TORCH_CHECK_VALUE(group.params[n].dim() == 2, "muon: parameter ", group.names[n], " has shape ",
                        group.params[n].sizes(), ", only matrices can be orthogonalised");
    }
    group.momentum = options.momentum;
    matrices_.push_back(std::make_unique<MatrixState>(group));
  }
}

void MuonOptimizer::SelectActive(MatrixState& state) const {
  state.buffers.Select(state.active);
  state.shapes.clear();
  for (size_t i = 0; i < state.active.params().size(); ++i) {
    const at::Tensor& param = state.active.params()[i];
    const auto fits = [&](const SameShape& other) {
      const auto count = static_cast<int64_t>(other.params.size()) + 1;
      return other.params[0].sizes() == param.sizes() && count * param.numel() <= kMaxElements;
    };
    auto shape = std::find_if(state.shapes.begin(), state.shapes.end(), fits);
    if (shape == state.shapes.end()) {
      const double ratio = MuonLrRatio(options_.adjust_lr_fn, param.size(0), param.size(1));
      shape = state.shapes.insert(shape, SameShape{{}, {}, ratio});
    }
    shape->positions.push_back(i);
    shape->params.push_back(param);
  }
}

void MuonOptimizer::UseSharding(ModelSharding& sharding) {
  if (sharding.splits_tensors()) return;
  for (size_t i = 0; i < matrices_.size(); ++i)
    matrices_[i]->pieces = std::make_unique<ShardedMatrices>(groups_[i].params, sharding);
  knows_pieces_ = true;
}

std::vector<at::Tensor> MuonOptimizer::Updates(const ParamGroup& group, MatrixState& state) const {
  if (state.active.empty()) return {};
  const at::TensorList grads = state.active.grads();
  at::_foreach_lerp_(state.buffers.active, grads, 1 - group.momentum);
  return options_.nesterov ? at::_foreach_lerp(grads, state.buffers.active, group.momentum) : state.buffers.active;
}

void MuonOptimizer::AddWhole(const ParamGroup& group, const MatrixState& state,
                             const std::vector<at::Tensor>& updates) const {
  for (const SameShape& shape : state.shapes) {
    std::vector<at::Tensor> chosen;
    for (const size_t position : shape.positions) chosen.push_back(updates[position]);
    const at::Tensor direction = Orthogonalize(at::stack(chosen).to(at::kBFloat16), options_.newton_schulz);
    at::_foreach_add_(shape.params, direction.to(shape.params[0].scalar_type()).unbind(0), -group.lr * shape.lr_ratio);
  }
}

void MuonOptimizer::AddPieces(const ParamGroup& group, MatrixState& state,
                              const std::vector<at::Tensor>& updates) const {
  std::vector<at::Tensor> by_matrix(group.params.size());
  for (size_t i = 0, next = 0; i < by_matrix.size(); ++i) {
    if (state.active.mask()[i]) by_matrix[i] = updates[next++];
  }
  const std::vector<at::Tensor> directions = state.pieces->Orthogonalize(by_matrix, options_.newton_schulz);
  for (size_t i = 0; i < directions.size(); ++i) {
    if (!directions[i].defined()) continue;
    const MatrixShape& shape = state.pieces->shape(i);
    const double ratio = MuonLrRatio(options_.adjust_lr_fn, shape.rows, shape.columns);
    at::Tensor param = group.params[i];
    param.add_(directions[i].to(param.scalar_type()).view_as(param), -group.lr * ratio);
  }
}

// With pieces all ranks take part, also those that have nothing of a matrix.
void MuonOptimizer::StepMatrices(const ParamGroup& group, MatrixState& state) {
  if (state.active.Refresh()) SelectActive(state);
  if (state.active.empty() && state.pieces == nullptr) return;
  const std::vector<at::Tensor> updates = Updates(group, state);
  if (!updates.empty()) state.active.Scale(1 - group.lr * group.weight_decay);
  state.pieces == nullptr ? AddWhole(group, state, updates) : AddPieces(group, state, updates);
  state.active.Release();
}

void MuonOptimizer::Step() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < matrices_.size(); ++i) StepMatrices(groups_[i], *matrices_[i]);
  for (size_t i = 0; i < others_.size(); ++i) others_[i]->Step(groups_[matrices_.size() + i], {});
}

NamedTensors MuonOptimizer::state() {
  NamedTensors result;
  for (size_t g = 0; g < matrices_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].names.size(); ++i) {
      matrices_[g]->buffers.AppendOne(groups_[g], i, "momentum_buffer", result);
    }
  }
  for (size_t i = 0; i < others_.size(); ++i) {
    const size_t g = matrices_.size() + i;
    others_[i]->AppendState(g, groups_[g], result);
  }
  return result;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/muon.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/optim/matrix/neuron_scale.h"

namespace composer {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 24;  // of matrices that are orthogonalised together

std::vector<ParamGroup> Join(MuonGroups groups) {
  std::vector<ParamGroup> all = std::move(groups.matrices);
  for (ParamGroup& group : groups.others) all.push_back(std::move(group));
  return all;
}

at::Tensor RowSquares(int64_t rows, const at::Device& device) {
  return at::zeros({rows}, torch::dtype(at::kFloat).device(device));
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
  if (options.second_beta && !(*options.second_beta >= 0 && *options.second_beta < 1))
    return bad("beta2", *options.second_beta, "in [0, 1)");
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
    if (!options.second_beta) continue;
    for (const at::Tensor& param : group.params)
      matrices_.back()->row_squares.push_back(RowSquares(param.size(0), param.device()));
  }
}

void MuonOptimizer::SelectActive(MatrixState& state) const {
  state.buffers.Select(state.active);
  state.shapes.clear();
  std::vector<size_t> in_group;
  for (size_t i = 0; i < state.active.mask().size(); ++i) {
    if (state.active.mask()[i] != 0) in_group.push_back(i);
  }
  for (size_t i = 0; i < state.active.params().size(); ++i) {
    const at::Tensor& param = state.active.params()[i];
    const auto fits = [&](const SameShape& other) {
      const auto count = static_cast<int64_t>(other.params.size()) + 1;
      return other.params[0].sizes() == param.sizes() && count * param.numel() <= kMaxElements;
    };
    auto shape = std::find_if(state.shapes.begin(), state.shapes.end(), fits);
    if (shape == state.shapes.end()) {
      const double ratio = MuonLrRatio(options_.adjust_lr_fn, param.size(0), param.size(1));
      shape = state.shapes.insert(shape, SameShape{{}, {}, {}, ratio});
    }
    shape->positions.push_back(i);
    shape->in_group.push_back(in_group[i]);
    shape->params.push_back(param);
  }
}

void MuonOptimizer::UseSharding(ModelSharding& sharding) {
  if (sharding.splits_tensors()) return;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    MatrixState& state = *matrices_[i];
    state.pieces = std::make_unique<ShardedMatrices>(groups_[i].params, sharding);
    for (size_t m = 0; m < state.row_squares.size(); ++m)
      state.row_squares[m] = RowSquares(state.pieces->shape(m).rows, groups_[i].params[m].device());
  }
  knows_pieces_ = true;
}

std::vector<at::Tensor> MuonOptimizer::Updates(const ParamGroup& group, MatrixState& state) const {
  if (state.active.empty()) return {};
  const at::TensorList grads = state.active.grads();
  at::_foreach_lerp_(state.buffers.active, grads, 1 - group.momentum);
  return options_.nesterov ? at::_foreach_lerp(grads, state.buffers.active, group.momentum) : state.buffers.active;
}

void MuonOptimizer::AddWhole(const ParamGroup& group, MatrixState& state,
                             const std::vector<at::Tensor>& updates) const {
  for (const SameShape& shape : state.shapes) {
    std::vector<at::Tensor> chosen;
    for (const size_t position : shape.positions) chosen.push_back(updates[position]);
    const at::Tensor& first = chosen[0];
    const at::Tensor matrices = at::empty({static_cast<int64_t>(chosen.size()), first.size(0), first.size(1)},
                                          first.options().dtype(at::kBFloat16));
    const at::Tensor whole = at::empty_like(matrices);
    at::_foreach_copy_(matrices.unbind(0), chosen);
    Orthogonalize(matrices, whole, options_.newton_schulz);
    std::vector<at::Tensor> directions = whole.to(shape.params[0].scalar_type()).unbind(0);
    for (size_t i = 0; i < directions.size() && !state.row_squares.empty(); ++i) {
      const at::Tensor factors = NeuronFactors(whole[i], state.row_squares[shape.in_group[i]], *options_.second_beta);
      directions[i] = whole[i].to(at::kFloat).mul_(factors.unsqueeze(1)).to(directions[i].scalar_type());
    }
    at::_foreach_add_(shape.params, directions, -group.lr * shape.lr_ratio);
  }
}

void MuonOptimizer::AddPieces(const ParamGroup& group, MatrixState& state,
                              const std::vector<at::Tensor>& updates) const {
  std::vector<at::Tensor> by_matrix(group.params.size());
  for (size_t i = 0, next = 0; i < by_matrix.size(); ++i) {
    if (state.active.mask()[i]) by_matrix[i] = updates[next++];
  }
  RowFactors factors;
  if (!state.row_squares.empty()) {
    factors = [&](size_t matrix, const at::Tensor& direction) {
      return NeuronFactors(direction, state.row_squares[matrix], *options_.second_beta);
    };
  }
  const std::vector<at::Tensor> directions = state.pieces->Orthogonalize(by_matrix, options_.newton_schulz, factors);
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
      if (!matrices_[g]->row_squares.empty())
        result.emplace_back(groups_[g].names[i] + "/row_squares", matrices_[g]->row_squares[i]);
    }
  }
  for (size_t i = 0; i < others_.size(); ++i) {
    const size_t g = matrices_.size() + i;
    others_[i]->AppendState(g, groups_[g], result);
  }
  return result;
}

}  // namespace composer

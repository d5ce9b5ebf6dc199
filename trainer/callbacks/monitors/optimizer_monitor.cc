// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/optimizer_monitor.h"

#include <torch/types.h>

#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

// Calls visit(name, parameter) for every parameter that has a gradient.
template <typename Visit>
void ForEachActive(const Optimizer& optimizer, const Visit& visit) {
  for (const ParamGroup& group : optimizer.groups()) {
    for (size_t i = 0; i < group.params.size(); ++i) {
      if (group.params[i].grad().defined()) visit(group.names[i], group.params[i]);
    }
  }
}

absl::flat_hash_map<std::string, at::Tensor> FirstMoments(Optimizer& optimizer) {
  absl::flat_hash_map<std::string, at::Tensor> moments;
  for (auto& [name, tensor] : optimizer.state()) {
    for (const absl::string_view suffix : {"/exp_avg", "/momentum_buffer"}) {
      if (absl::EndsWith(name, suffix)) moments[name.substr(0, name.size() - suffix.size())] = tensor;
    }
  }
  return moments;
}

// norms are those of this rank's parts of tensors, each laid out like the parameter at its position, and become those
// of the whole tensors. All ranks must have the same list.
void SumNormsOverShards(const std::vector<at::Tensor>& params, ModelSharding& sharding, std::vector<double>& norms) {
  const at::Tensor squares = at::empty({static_cast<int64_t>(norms.size())}, at::kDouble);
  auto* data = static_cast<double*>(squares.mutable_data_ptr());
  for (size_t i = 0; i < norms.size(); ++i) data[i] = sharding.Counts(params[i]) ? norms[i] * norms[i] : 0;
  const at::Tensor sum = squares.to(sharding.device());
  if (!norms.empty()) sharding.SumOverShards(sum);
  const at::Tensor whole = sum.sqrt().cpu();
  data = static_cast<double*>(whole.mutable_data_ptr());
  norms.assign(data, data + norms.size());
}

}  // namespace

std::vector<double> L2Norms(const std::vector<at::Tensor>& tensors) {
  std::map<std::pair<std::string, at::ScalarType>, std::vector<size_t>> alike;
  for (size_t i = 0; i < tensors.size(); ++i) alike[{tensors[i].device().str(), tensors[i].scalar_type()}].push_back(i);
  std::vector<double> norms(tensors.size());
  for (const auto& [kind, members] : alike) {
    std::vector<at::Tensor> list;
    for (const size_t i : members) list.push_back(tensors[i].detach());
    // This is the only wait for the device.
    const at::Tensor values = at::stack(at::_foreach_norm(list, 2)).to(at::TensorOptions(at::kCPU).dtype(at::kDouble));
    for (size_t n = 0; n < members.size(); ++n)
      norms[members[n]] = static_cast<const double*>(values.const_data_ptr())[n];
  }
  return norms;
}

absl::Status OptimizerMonitor::Run(Event event, State& state, Logger& logger) {
  const bool sums = state.sharding != nullptr;  // needs all ranks, also those that log nothing
  if ((!logger.has_destinations() && !sums) || state.optimizer == nullptr) return absl::OkStatus();
  const bool before_step = event == Event::kAfterTrainBatch;
  const int64_t batch = state.timestamp.batch + (before_step ? 1 : 0);
  if (batch % options_.interval != 0) return absl::OkStatus();
  const torch::NoGradGuard no_grad;
  if (before_step) {
    if (options_.log_optimizer_metrics) CopyParameters(state);
  } else {
    LogNorms(state, logger);
    before_.clear();
  }
  return absl::OkStatus();
}

void OptimizerMonitor::CopyParameters(const State& state) {
  before_.clear();
  ForEachActive(*state.optimizer,
                [&](const std::string&, const at::Tensor& param) { before_.push_back(param.detach().clone()); });
}

void OptimizerMonitor::LogNorms(State& state, Logger& logger) {
  std::vector<std::pair<std::string, at::Tensor>> measured;
  std::vector<at::Tensor> params;  // the parameter whose gradient, value, moment or update it is
  const auto moments =
      options_.log_optimizer_metrics ? FirstMoments(*state.optimizer) : absl::flat_hash_map<std::string, at::Tensor>();
  size_t position = 0, num_grads = 0;
  ForEachActive(*state.optimizer, [&](const std::string& name, const at::Tensor& param) {
    const auto add = [&](absl::string_view what, const at::Tensor& tensor) {
      measured.emplace_back(absl::StrCat("l2_norm/", what, "/", name), tensor);
      params.push_back(param);
    };
    measured.insert(measured.begin() + static_cast<std::ptrdiff_t>(num_grads),
                    {absl::StrCat("l2_norm/grad/", name), param.grad()});
    params.insert(params.begin() + static_cast<std::ptrdiff_t>(num_grads++), param);
    if (!options_.log_optimizer_metrics) return;
    add("param", param);
    if (const auto it = moments.find(name); it != moments.end()) add("moment", it->second);
    // It is absent when a gradient appeared after AFTER_TRAIN_BATCH; the change is not known then.
    if (position < before_.size() && before_[position].sizes() == param.sizes())
      add("update", before_[position].neg_().add_(param));
    ++position;
  });
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : measured) tensors.push_back(tensor);
  std::vector<double> norms = L2Norms(tensors);
  if (state.sharding != nullptr) SumNormsOverShards(params, *state.sharding, norms);
  double sum = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (i < num_grads) sum += norms[i] * norms[i];
    logger.Log(measured[i].first, norms[i]);
  }
  logger.Log("l2_norm/grad/global", std::sqrt(sum));
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/lawa.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "trainer/algorithms/ema_options.h"
#include "trainer/core/state.h"

namespace composer {

absl::Status Validate(const LawaOptions& options) {
  const auto refuse = [](absl::string_view field, const auto& value, absl::string_view range) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", it must be ", range));
  };
  if (options.k < 1 || options.k > 1000) return refuse("k", options.k, "from 1 to 1000");
  const TimeUnit unit = options.interval.unit();
  if ((unit != TimeUnit::kBatch && unit != TimeUnit::kEpoch) || options.interval.count() <= 0)
    return refuse("interval", options.interval.ToString(), "in batches (ba) or epochs (ep), more than 0");
  const bool is_share = options.lawa_start.unit() == TimeUnit::kDuration;
  if (options.lawa_start.value() < 0 || (is_share && options.lawa_start.value() > 1))
    return refuse("lawa_start", options.lawa_start.ToString(), is_share ? "from 0dur to 1dur" : "at least 0");
  return absl::OkStatus();
}

std::vector<at::Tensor> MeanOfSnapshots(const std::vector<std::vector<at::Tensor>>& snapshots) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> means;
  for (const at::Tensor& tensor : snapshots.at(0)) means.push_back(tensor.clone());
  if (means.empty()) return means;
  for (size_t i = 1; i < snapshots.size(); ++i) at::_foreach_add_(means, snapshots[i]);
  at::_foreach_div_(means, static_cast<double>(snapshots.size()));
  return means;
}

bool Lawa::Wants(Event event, const State& state) const {
  const TimeUnit unit = options_.interval.unit();
  if (event != (unit == TimeUnit::kBatch ? Event::kBatchEnd : Event::kEpochEnd)) return false;
  return state.timestamp.Get(unit) % options_.interval.count() == 0 &&
         EmaIsDue(options_.lawa_start, state.timestamp, state.max_duration);
}

void Lawa::Advance(Event /*event*/, State& /*state*/) {
  const torch::NoGradGuard no_grad;
  const auto slot = static_cast<size_t>(taken_++ % options_.k);
  if (slot >= snapshots_.size()) snapshots_.resize(slot + 1);
  std::vector<at::Tensor>& snapshot = snapshots_[slot];
  if (snapshot.empty()) {
    for (const at::Tensor& tensor : live()) snapshot.push_back(tensor.detach().clone());
  } else {
    for (size_t i = 0; i < snapshot.size(); ++i) snapshot[i].copy_(live()[i].detach());
  }
}

std::vector<KeptTensor> Lawa::OwnTensors() const {
  std::vector<KeptTensor> result;
  for (size_t slot = 0; slot < snapshots_.size(); ++slot) {
    for (const Named& tensor : named())
      result.push_back(Kept(absl::StrCat("snapshot", slot, "/", tensor.name), snapshots_[slot][tensor.index], tensor));
  }
  return result;
}

std::string Lawa::SaveState() const {
  return taken_ == 0 ? "" : nlohmann::json{{"k", options_.k}, {"taken", taken_}}.dump();
}

absl::Status Lawa::PrepareLoad(absl::string_view json) {
  UseForInference(false);
  taken_ = 0;
  snapshots_.clear();
  if (json.empty()) return absl::OkStatus();
  const auto saved = ParseJson(json);
  const auto count = [&](const char* key) {
    return saved.is_object() && saved.contains(key) && saved[key].is_number_integer() ? saved[key].get<int64_t>() : 0;
  };
  if (count("k") < 1 || count("taken") < 1)
    return absl::DataLossError(absl::StrCat("LAWA: its state is not as it was saved: ", json.substr(0, 80)));
  if (count("k") != options_.k)
    return absl::InvalidArgumentError(absl::StrCat("lawa: k: ", options_.k, ", but the checkpoint has the latest ",
                                                   count("k"), " snapshots; k stays as it was"));
  if (live().empty())
    return absl::FailedPreconditionError("LAWA: a checkpoint with a mean cannot be loaded before the end of INIT");
  taken_ = count("taken");
  snapshots_.resize(static_cast<size_t>(std::min(taken_, options_.k)));
  for (auto& snapshot : snapshots_) {
    for (const at::Tensor& tensor : live()) snapshot.push_back(at::empty_like(tensor.detach()));
  }
  return absl::OkStatus();
}

}  // namespace composer

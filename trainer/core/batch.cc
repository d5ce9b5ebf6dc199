// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/batch.h"

#include <torch/types.h>

#include <numeric>

namespace composer {
namespace {

// Calls fn for each map of lists by sample, and the other batch's. Whoever changes the number of samples must change
// all lists alike.
template <typename Fn>
void ForEachList(const Batch& from, Batch& to, const Fn& fn) {
  const auto checked = [&](const std::string& name, const auto& list, auto& other) {
    TORCH_CHECK_VALUE(static_cast<int64_t>(list.size()) == from.num_samples, "batch: the list `", name, "` has ",
                      list.size(), " elements for ", from.num_samples, " samples");
    fn(list, other);
  };
  for (const auto& [name, list] : from.ragged) checked(name, list, to.ragged[name]);
  for (const auto& [name, list] : from.texts) checked(name, list, to.texts[name]);
}

}  // namespace

const at::Tensor& Batch::Get(absl::string_view key) const {
  if (key == "inputs") return inputs;
  if (key == "targets") return targets;
  std::string keys = "inputs, targets";
  for (const auto& [name, tensor] : extra) {
    if (name == key) return tensor;
    keys += ", " + name;
  }
  TORCH_CHECK_VALUE(false, "the batch has no `", std::string(key), "`; it has ", keys);
}

void Batch::Set(absl::string_view key, at::Tensor tensor) {
  (key == "inputs" ? inputs : key == "targets" ? targets : extra[std::string(key)]) = std::move(tensor);
}

Batch Batch::Slice(int64_t begin, int64_t end) const {
  TORCH_CHECK_VALUE(0 <= begin && begin <= end && end <= num_samples, "Batch::Slice: rows [", begin, ", ", end,
                    ") of a batch with ", num_samples, " samples");
  if (begin == 0 && end == num_samples) return *this;
  Batch part;
  if (inputs.defined()) part.inputs = inputs.slice(0, begin, end);
  if (targets.defined()) part.targets = targets.slice(0, begin, end);
  for (const auto& [name, tensor] : extra) part.extra[name] = tensor.slice(0, begin, end);
  ForEachList(*this, part,
              [&](const auto& list, auto& rows) { rows.assign(list.begin() + begin, list.begin() + end); });
  if (data != nullptr) {
    std::vector<int64_t> rows(static_cast<size_t>(end - begin));
    std::iota(rows.begin(), rows.end(), begin);
    part.data = data->Select(rows);
  }
  if (has_sample_ids()) part.sample_ids.assign(sample_ids.begin() + begin, sample_ids.begin() + end);
  part.num_samples = end - begin;
  part.num_tokens = num_samples == 0 ? 0 : num_tokens * part.num_samples / num_samples;
  return part;
}

Batch Batch::Select(const std::vector<int64_t>& rows) const {
  for (const int64_t row : rows)
    TORCH_CHECK_VALUE(0 <= row && row < num_samples, "Batch::Select: row ", row, " of a batch with ", num_samples,
                      " samples");
  const at::Tensor index = torch::tensor(rows, torch::dtype(at::kLong));
  const auto select = [&](const at::Tensor& tensor) { return tensor.index_select(0, index.to(tensor.device())); };
  Batch part;
  if (inputs.defined()) part.inputs = select(inputs);
  if (targets.defined()) part.targets = select(targets);
  for (const auto& [name, tensor] : extra) part.extra[name] = select(tensor);
  ForEachList(*this, part, [&](const auto& list, auto& selected) {
    for (const int64_t row : rows) selected.push_back(list[static_cast<size_t>(row)]);
  });
  if (data != nullptr) part.data = data->Select(rows);
  for (const int64_t row : rows) {
    if (has_sample_ids()) part.sample_ids.push_back(sample_ids[static_cast<size_t>(row)]);
  }
  part.num_samples = static_cast<int64_t>(rows.size());
  part.num_tokens = num_samples == 0 ? 0 : num_tokens * part.num_samples / num_samples;
  return part;
}

Batch Batch::To(at::Device device) const {
  const auto there = [device](const at::Tensor& tensor) {
    return tensor.defined() && tensor.device() != device ? tensor.to(device, /*non_blocking=*/true) : tensor;
  };
  Batch moved = *this;
  moved.inputs = there(inputs);
  moved.targets = there(targets);
  for (auto& [name, tensor] : moved.extra) tensor = there(tensor);
  for (auto& [name, list] : moved.ragged) {
    for (at::Tensor& tensor : list) tensor = there(tensor);
  }
  if (data != nullptr) moved.data = data->To(device);
  return moved;
}

int64_t CountLossTokens(const Batch& batch) {
  if (batch.num_loss_tokens >= 0) return batch.num_loss_tokens;
  TORCH_CHECK_VALUE(batch.targets.defined() && at::isIntegralType(batch.targets.scalar_type(), /*includeBool=*/false),
                    "the loss-generating tokens of a batch can't be counted: its targets are not integers; set "
                    "Batch::num_loss_tokens in the dataset, or accumulate_train_batch_on_tokens: false");
  constexpr int64_t kIgnored = -100;
  return batch.targets.numel() == 0 ? 0 : batch.targets.ne(kIgnored).sum().item<int64_t>();
}

}  // namespace composer

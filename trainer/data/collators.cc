// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/collators.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

namespace composer {
namespace {

bool IsMask(const std::string& key) {
  return std::any_of(std::begin(kTextKeys), std::end(kTextKeys), [&](const TextKey& each) { return key == each.mask; });
}

bool IsRow(const at::Tensor& tensor) { return tensor.dim() == 1 && at::isIntegralType(tensor.scalar_type(), true); }

// Returns this key's tensors of all samples.
std::vector<at::Tensor> ColumnOf(const std::string& key, const std::vector<Sample>& samples) {
  std::vector<at::Tensor> column;
  for (const Sample& sample : samples) {
    const auto found = sample.tensors.find(key);
    TORCH_CHECK_VALUE(found != sample.tensors.end(), "sample ", sample.id, " has no `", key, "`, but sample ",
                      samples.front().id, " has");
    column.push_back(found->second);
  }
  return column;
}

at::Tensor Stack(const std::string& key, const std::vector<at::Tensor>& column, const std::vector<Sample>& samples) {
  for (size_t i = 1; i < column.size(); ++i) {
    TORCH_CHECK_VALUE(column[i].sizes() == column[0].sizes() && column[i].scalar_type() == column[0].scalar_type(), "`",
                      key, "` of sample ", samples[i].id, " is ", column[i].sizes(), " of ", column[i].dtype(),
                      ", that of sample ", samples[0].id, " ", column[0].sizes(), " of ", column[0].dtype(),
                      "; give the data `collate: pad`, or transforms that make them alike");
  }
  return torch::stack(column);
}

void MoveTexts(std::vector<Sample>& samples, Batch& batch) {
  for (Sample& sample : samples) {
    TORCH_CHECK_VALUE(
        sample.tensors.size() == samples[0].tensors.size() && sample.texts.size() == samples[0].texts.size(), "sample ",
        sample.id, " has other keys than sample ", samples[0].id);
    for (auto& [key, text] : sample.texts) batch.texts[key].push_back(std::move(text));
  }
}

// Calls column(key, tensors) for each key and sets the batch's tensor of it.
template <typename Column>
Batch CollateColumns(std::vector<Sample>& samples, const Column& column) {
  Batch batch;
  batch.num_samples = static_cast<int64_t>(samples.size());
  for (const auto& [key, tensor] : samples.front().tensors) batch.Set(key, column(key, ColumnOf(key, samples)));
  MoveTexts(samples, batch);
  return batch;
}

}  // namespace

Batch StackCollator::Collate(std::vector<Sample> samples) const {
  Batch batch =
      CollateColumns(samples, [&](const std::string& key, const auto& column) { return Stack(key, column, samples); });
  const bool has_tokens = batch.inputs.defined() && batch.inputs.dim() == 2 &&
                          at::isIntegralType(batch.inputs.scalar_type(), /*includeBool=*/false);
  batch.num_tokens = has_tokens ? batch.inputs.numel() : 0;
  return batch;
}

Batch PadCollator::Collate(std::vector<Sample> samples) const {
  for (Sample& sample : samples) {
    for (const TextKey& key : kTextKeys) {
      const auto row = sample.tensors.find(key.tokens);
      if (row != sample.tensors.end() && IsRow(row->second) && sample.tensors.count(key.mask) == 0)
        sample.tensors[key.mask] = torch::ones({row->second.size(0)}, at::kLong);
    }
  }
  const auto pad = [&](const std::string& key, const std::vector<at::Tensor>& column) {
    if (!std::all_of(column.begin(), column.end(), IsRow)) return Stack(key, column, samples);
    int64_t longest = options_.to_length;
    for (size_t i = 0; i < column.size(); ++i) {
      const int64_t length = column[i].size(0);
      TORCH_CHECK_VALUE(options_.to_length == 0 || length <= options_.to_length, "`", key, "` of sample ",
                        samples[i].id, " has ", length, " tokens; rows are padded to ", options_.to_length,
                        ": truncate them first");
      longest = std::max(longest, length);
    }
    const int64_t multiple = std::max<int64_t>(1, options_.to_multiple_of);
    longest = (longest + multiple - 1) / multiple * multiple;
    const int64_t fill = key == "targets" ? options_.ignored_id : IsMask(key) ? 0 : options_.pad_id;
    at::Tensor rows = torch::full({static_cast<int64_t>(column.size()), longest}, fill, column[0].options());
    for (size_t i = 0; i < column.size(); ++i) {
      const int64_t length = column[i].size(0), begin = options_.pad_left ? longest - length : 0;
      rows[static_cast<int64_t>(i)].slice(0, begin, begin + length).copy_(column[i]);
    }
    return rows;
  };
  Batch batch = CollateColumns(samples, pad);
  for (const TextKey& key : kTextKeys) {
    if (const auto mask = batch.extra.find(key.mask); mask != batch.extra.end())
      batch.num_tokens += mask->second.sum().item<int64_t>();
  }
  return batch;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/attention_cache.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <optional>

namespace composer {
namespace {

// Of a block's inputs, as AttentionCache::Inputs has them.
constexpr size_t kKeys = 1, kMask = 5, kCacheInputs = 6;

}  // namespace

void AttentionCache::MakeMemory(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  const at::ScalarType dtype =
      at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    // The memory must be zeroed: masked values are multiplied by 0, so they must be finite.
    keys_.push_back(at::zeros({rows_, capacity_, shape_.heads, shape_.head_width}, x.options().dtype(dtype)));
    values_.push_back(at::zeros_like(keys_.back()));
  }
  row_indices_ = at::arange(rows_, x.options().dtype(at::kLong));
}

void AttentionCache::BeginPass(const at::Tensor& x, int64_t tokens, absl::Span<const int64_t> lengths) {
  const bool first = keys_.empty();
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  TORCH_CHECK(static_cast<int64_t>(lengths.size()) == rows_ && *shortest >= 1 && *longest <= capacity_ &&
                  (first ? tokens >= *longest && tokens <= capacity_ : tokens == 1),
              "a cache of ", rows_, " rows of ", capacity_, " tokens was given ", lengths.size(), " rows of ", tokens,
              " tokens, the longest with ", *longest);
  longest_ = first ? tokens : *longest;
  if (first) {
    MakeMemory(x);
    return;
  }
  const at::Tensor ends = at::empty({rows_}, at::kLong);
  std::copy(lengths.begin(), lengths.end(), ends.mutable_data_ptr<int64_t>());
  const at::Tensor on_device = ends.to(x.device());
  places_ = on_device - 1;
  mask_ =
      *shortest == *longest
          ? at::Tensor()
          : at::arange(longest_, on_device.options()).unsqueeze(0).lt(on_device.unsqueeze(1)).view({rows_, 1, 1, -1});
}

std::vector<at::Tensor> AttentionCache::Inputs(const at::Tensor& x, size_t layer) const {
  const at::Tensor keys = keys_[layer].narrow(1, 0, longest_), values = values_[layer].narrow(1, 0, longest_);
  if (!places_.defined()) return {x, keys, values, at::Tensor(), at::Tensor(), at::Tensor()};
  return {x, keys, values, row_indices_, places_, mask_};
}

void AttentionCache::Reorder(absl::Span<const int64_t> rows) {
  if (keys_.empty()) return;
  const at::Tensor from = at::empty({rows_}, at::kLong);
  TORCH_CHECK(static_cast<int64_t>(rows.size()) == rows_, "a cache of ", rows_, " rows was given ", rows.size());
  std::copy(rows.begin(), rows.end(), from.mutable_data_ptr<int64_t>());
  const at::Tensor on_device = from.to(row_indices_.device());
  for (std::vector<at::Tensor>* memory : {&keys_, &values_}) {
    for (at::Tensor& layer : *memory) layer = layer.index_select(0, on_device);
  }
}

at::Tensor ForHeadsOf(const at::Tensor& q, const at::Tensor& k) {
  const int64_t times = q.size(1) / k.size(1);
  if (times == 1) return k;
  return k.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

std::vector<at::Tensor> UncachedInputs(const at::Tensor& x, const at::Tensor& mask) {
  std::vector<at::Tensor> inputs(kCacheInputs);
  inputs[0] = x;
  inputs[kMask] = mask;
  return inputs;
}

at::Tensor CausalAttention(AttentionCore& core, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::vector<at::Tensor>& inputs) {
  const bool is_block = inputs.size() >= kCacheInputs;
  const at::Tensor values = core.Values(v);
  if (is_block && inputs[kKeys].defined()) return CachedAttention(core, q, k, values, inputs);
  std::optional<at::Tensor> mask;
  if (is_block && inputs[kMask].defined()) mask = inputs[kMask];
  return core.forward(q, ForHeadsOf(q, k), ForHeadsOf(q, values), mask, /*is_causal=*/!mask);
}

at::Tensor CachedAttention(AttentionCore& core, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::vector<at::Tensor>& inputs) {
  const at::Tensor &keys = inputs[1], &values = inputs[2], &rows = inputs[3], &places = inputs[4], &mask = inputs[5];
  if (!places.defined()) {
    keys.copy_(k.transpose(1, 2));
    values.copy_(v.transpose(1, 2));
    return core.forward(q, ForHeadsOf(q, k), ForHeadsOf(q, v), std::nullopt, /*is_causal=*/true);
  }
  const at::ScalarType dtype = keys.scalar_type();
  at::Tensor(keys).index_put_({rows, places}, k.select(2, 0).to(dtype));
  at::Tensor(values).index_put_({rows, places}, v.select(2, 0).to(dtype));
  std::optional<at::Tensor> attn_mask;
  if (mask.defined()) attn_mask = mask;
  return core.forward(q.to(dtype), ForHeadsOf(q, keys.transpose(1, 2)), ForHeadsOf(q, values.transpose(1, 2)),
                      attn_mask,
                      /*is_causal=*/false);
}

}  // namespace composer

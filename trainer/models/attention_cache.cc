// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/attention_cache.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace composer {
namespace {

// Of a block's inputs, as AttentionCache::Inputs has them.
constexpr size_t kKeys = 1, kMask = 5, kCacheInputs = 6;

// Copies what is kept of all, [rows, T, ..], into the memory.
void Fill(const at::Tensor& memory, const at::Tensor& all, const at::Tensor& kept) {
  if (!kept.defined()) {
    memory.copy_(all);
    return;
  }
  const at::Tensor rows = at::arange(kept.size(0), kept.options()).unsqueeze(1);
  memory.copy_(all.index({rows, kept}));
}

}  // namespace

void AttentionCache::MakeMemory(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  const at::ScalarType dtype =
      at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    // The memory must be zeroed: masked values are multiplied by 0, so they must be finite.
    const int64_t window = WindowBelow(static_cast<size_t>(layer), capacity_);
    keys_.push_back(
        at::zeros({rows_, window > 0 ? window : capacity_, shape_.heads, shape_.head_width}, x.options().dtype(dtype)));
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
  for (size_t row = 0; row < lengths_.size(); ++row)
    TORCH_CHECK(shape_.windows.empty() || lengths[row] >= lengths_[row],
                "a cache with windows cannot go back to an earlier token");
  lengths_.assign(lengths.begin(), lengths.end());
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
  const int64_t window = WindowBelow(layer, longest_), used = window > 0 ? window : longest_;
  const at::Tensor keys = keys_[layer].narrow(1, 0, used), values = values_[layer].narrow(1, 0, used);
  const bool first = !places_.defined();
  if (window == 0) return {x, keys, values, first ? at::Tensor() : row_indices_, places_, mask_};
  if (first) return {x, keys, values, at::Tensor(), KeptTokens(window), WithinWindow({}, window, x)};
  // A row that is shorter than the window has filled the memory's beginning.
  const at::Tensor mask = mask_.defined() ? mask_.narrow(-1, 0, window) : mask_;
  return {x, keys, values, row_indices_, places_.remainder(window), mask};
}

int64_t AttentionCache::WindowBelow(size_t layer, int64_t tokens) const {
  const int64_t window = shape_.windows.empty() ? 0 : shape_.windows[layer];
  return window < tokens ? window : 0;
}

at::Tensor AttentionCache::KeptTokens(int64_t window) const {
  const at::Tensor kept = at::empty({rows_, window}, at::kLong);
  auto* places = kept.mutable_data_ptr<int64_t>();
  for (const int64_t length : lengths_) {
    // The newest token whose place is `slot` modulo the window; a short row's end is filled with what no one sees.
    for (int64_t slot = 0; slot < window; ++slot)
      *places++ = length > slot ? length - 1 - (length - 1 - slot) % window : 0;
  }
  return kept.to(row_indices_.device());
}

void AttentionCache::Reorder(absl::Span<const int64_t> rows) {
  if (keys_.empty()) return;
  const at::Tensor from = at::empty({rows_}, at::kLong);
  TORCH_CHECK(static_cast<int64_t>(rows.size()) == rows_, "a cache of ", rows_, " rows was given ", rows.size());
  std::copy(rows.begin(), rows.end(), from.mutable_data_ptr<int64_t>());
  std::vector<int64_t> lengths;
  for (const int64_t row : rows) lengths.push_back(lengths_[static_cast<size_t>(row)]);
  lengths_ = std::move(lengths);
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

at::Tensor WithinWindow(const at::Tensor& mask, int64_t window, const at::Tensor& x) {
  const int64_t tokens = x.size(1);
  if (window == 0 || tokens <= window) return mask;
  const at::Tensor near = at::ones({tokens, tokens}, x.options().dtype(at::kBool)).triu(1 - window);
  return mask.defined() ? mask & near : near.tril().view({1, 1, tokens, tokens});
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

at::Tensor CausalAttention(AttentionCore& core, const at::Tensor& qkv, int64_t head_width,
                           const std::vector<at::Tensor>& inputs) {
  const std::vector<at::Tensor> parts = qkv.chunk(3, -1);
  const at::Tensor q = SplitHeads(parts[0], head_width), k = SplitHeads(parts[1], head_width);
  return JoinHeads(CausalAttention(core, q, k, SplitHeads(parts[2], head_width), inputs));
}

at::Tensor CachedAttention(AttentionCore& core, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::vector<at::Tensor>& inputs) {
  const at::Tensor &keys = inputs[1], &values = inputs[2], &rows = inputs[3], &places = inputs[4], &mask = inputs[5];
  std::optional<at::Tensor> attn_mask;
  if (mask.defined()) attn_mask = mask;
  if (!rows.defined()) {
    Fill(keys, k.transpose(1, 2), places);
    Fill(values, v.transpose(1, 2), places);
    return core.forward(q, ForHeadsOf(q, k), ForHeadsOf(q, v), attn_mask, /*is_causal=*/!attn_mask);
  }
  const at::ScalarType dtype = keys.scalar_type();
  at::Tensor(keys).index_put_({rows, places}, k.select(2, 0).to(dtype));
  at::Tensor(values).index_put_({rows, places}, v.select(2, 0).to(dtype));
  return core.forward(q.to(dtype), ForHeadsOf(q, keys.transpose(1, 2)), ForHeadsOf(q, values.transpose(1, 2)),
                      attn_mask,
                      /*is_causal=*/false);
}

}  // namespace composer

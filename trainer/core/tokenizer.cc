// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/tokenizer.h"

#include <torch/types.h>

#include <algorithm>

namespace composer {

namespace {

// Returns at most `most` tokens of the text, of which those that are added before and behind it stay.
std::vector<int64_t> CutRow(const Tokenizer& tokenizer, const std::string& text, bool add_special_tokens, size_t most) {
  std::vector<int64_t> ids = tokenizer.Encode(text, add_special_tokens).ids;
  if (most == 0 || ids.size() <= most) return ids;
  const size_t own = add_special_tokens ? tokenizer.Encode(text, false).ids.size() : ids.size();
  const size_t added = ids.size() - std::min(own, ids.size());
  if (added == 0 || added > most) return {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(most)};
  // The empty text has all that is added; what stands before the text is the same there.
  const std::vector<int64_t> around = tokenizer.Encode("", true).ids;
  const auto front =
      static_cast<size_t>(std::mismatch(around.begin(), around.end(), ids.begin(), ids.end()).first - around.begin());
  const size_t behind = added - std::min(front, added);
  ids.erase(ids.begin() + static_cast<ptrdiff_t>(most - behind), ids.end() - static_cast<ptrdiff_t>(behind));
  return ids;
}

}  // namespace

Batch Tokenizer::EncodeBatch(const std::vector<std::string>& texts, const PaddingOptions& options) const {
  TORCH_CHECK_VALUE(options.max_length >= 0 && (options.max_length > 0 || !options.to_max_length),
                    "tokenizer: max_length is ", options.max_length, ", it must be at least 1 to pad to it");
  std::vector<std::vector<int64_t>> rows;
  size_t longest = 0;
  for (const std::string& text : texts) {
    rows.push_back(CutRow(*this, text, options.add_special_tokens, static_cast<size_t>(options.max_length)));
    longest = std::max(longest, rows.back().size());
  }
  const auto size = static_cast<int64_t>(rows.size());
  const int64_t width = options.to_max_length ? options.max_length : static_cast<int64_t>(longest);
  Batch batch;
  batch.inputs = torch::full({size, width}, special_tokens().pad.value_or(0), torch::dtype(at::kLong));
  at::Tensor mask = torch::zeros({size, width}, torch::dtype(at::kLong));
  auto* tokens = static_cast<int64_t*>(batch.inputs.mutable_data_ptr());
  auto* used = static_cast<int64_t*>(mask.mutable_data_ptr());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto begin = static_cast<int64_t>(i) * width;
    std::copy(rows[i].begin(), rows[i].end(), tokens + begin);
    std::fill_n(used + begin, rows[i].size(), 1);
    batch.num_tokens += static_cast<int64_t>(rows[i].size());
  }
  batch.extra["attention_mask"] = std::move(mask);
  batch.num_samples = size;
  return batch;
}

}  // namespace composer

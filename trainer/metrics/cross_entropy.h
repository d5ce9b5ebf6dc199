// Mean cross-entropy in nats, exact over samples (tokens) however they are batched. outputs are logits [B, C] or [B, T,
// V], with the classes last, or images [B, C, *] with targets [B, *]. Targets of ignore_index do not count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "trainer/core/metric.h"
#include "trainer/metrics/known_loss.h"

namespace composer {

// "CrossEntropy": targets are int64 [B, *], or dense [B, C, *], of which each sample (and each place) counts 1.
// batch_mean gives Composer's value, the mean of the batches' means (for composer_compat).
std::unique_ptr<Metric> MakeCrossEntropy(bool batch_mean = false, int64_t ignore_index = -100);
// Returns the cross-entropy of each target [B, T], 0 for those of ignore_index. It serves outputs that are not whole
// logits.
using TokenLosses = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;
// "LanguageCrossEntropy": the mean per token. Empty losses mean that outputs are logits. Where `known` has the loss of
// a batch, which needs ignore_index -100, it is not computed again; null: there is none.
std::unique_ptr<Metric> MakeLanguageCrossEntropy(int64_t ignore_index = -100, TokenLosses losses = {},
                                                 std::shared_ptr<const KnownLoss> known = nullptr);
// "LanguagePerplexity": exp of LanguageCrossEntropy.
std::unique_ptr<Metric> MakeLanguagePerplexity(int64_t ignore_index = -100, TokenLosses losses = {});

}  // namespace composer

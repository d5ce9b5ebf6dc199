// Mean cross-entropy in nats, exact over samples (tokens) whatever the batches. outputs: logits [B, C] or [B, T, V],
// classes last, or images [B, C, *] with targets [B, *]. Targets of ignore_index do not count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/metrics/metric.h"

namespace composer {

// "CrossEntropy": targets int64 [B, *], or dense [B, C, *] (then each sample, each place, counts 1). batch_mean:
// Composer's, the mean of the batches' means (for composer_compat).
std::unique_ptr<Metric> MakeCrossEntropy(bool batch_mean = false, int64_t ignore_index = -100);
// "LanguageCrossEntropy": a token's mean.
std::unique_ptr<Metric> MakeLanguageCrossEntropy(int64_t ignore_index = -100);
// "LanguagePerplexity": exp of it.
std::unique_ptr<Metric> MakeLanguagePerplexity(int64_t ignore_index = -100);

}  // namespace composer

// Mean cross-entropy in nats, exact over samples (tokens) whatever the batches; Composer's is the mean of the batches'
// means. outputs: logits [B, C] or [B, T, V], classes last. Targets of -100 do not count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/metrics/metric.h"

namespace composer {

// "CrossEntropy": targets int64 [B], or dense [B, C] (then each sample counts 1).
std::unique_ptr<Metric> MakeCrossEntropy();
// "LanguageCrossEntropy": a token's mean.
std::unique_ptr<Metric> MakeLanguageCrossEntropy();
// "LanguagePerplexity": exp of it.
std::unique_ptr<Metric> MakeLanguagePerplexity();

}  // namespace composer

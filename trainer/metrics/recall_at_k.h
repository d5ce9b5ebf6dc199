// How often a text's own counterpart is among the k that are most like it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/metric.h"

namespace composer {

// "RecallAt<k>": the share of samples for which fewer than k "positives" of all samples have a larger product with the
// sample's "outputs" than its own one; both are [B, width]. NaN without samples. Exact over batches and ranks: it keeps
// 16 bytes a sample and width, and computes samples² * width products at the end. For evaluations only. k >= 1.
// Source: sentence-transformers, InformationRetrievalEvaluator (accuracy@k with one relevant document a query).
std::unique_ptr<Metric> MakeRecallAtK(int64_t k);

}  // namespace composer

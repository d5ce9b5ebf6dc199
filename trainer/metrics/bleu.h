// How much the texts that a model has written are like those that are right.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/icl/answer_match.h"
#include "trainer/core/metric.h"

namespace composer {

// "BLEU" over all texts of `generations`, given `answers`, of batches that an evaluation on a PromptDataset makes:
//
//   min(1, e^(1 - r / c)) (p1 p2 p3 p4)^(1/4)
//
// pn is the share of the texts' runs of n words that are in an answer, each as often as in the answer that has it most;
// c is the number of the texts' words, r that of the answers that are nearest in length. 0 when a pn is 0. Words are
// what stands between spaces; of a text counts what AnswerIn returns. Exact over batches and ranks. Papineni et al.
// 2002; the value is torchmetrics' BLEUScore's.
std::unique_ptr<Metric> MakeBleu(AnswerMatchOptions options = {});

}  // namespace composer

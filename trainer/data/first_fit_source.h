// Packs whole documents into rows of one length, with little padding: first-fit decreasing over groups of documents.
// Source: Johnson 1973, "Near-optimal bin packing algorithms"; llm-foundry, llmfoundry/data/packing.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/data/packed_source.h"

namespace composer {

struct FirstFitOptions {
  PackOptions pack;    // its separator ends each document that brings no `targets`
  int64_t pad_id = 0;  // fills inputs; targets are then -100
};

// Returns the lengths' rows: for each the numbers of its documents, first-fit decreasing. 0 < lengths <= most.
std::vector<std::vector<size_t>> FirstFit(const std::vector<int64_t>& lengths, int64_t most);

// Returns a source of unknown size whose samples are `inputs` and `targets` [T], int64. A document's `inputs` and, if
// it has them, `targets` (as `finetuning` makes them) are rows of tokens; without targets, a token's is the next one.
// The last token of a document has the target -100 unless the document says another. A document of more than T tokens
// is cut into several. Groups are of 1024 documents in the epoch's order, so a place is the number of a group and of a
// row in it, and resuming reads one group again. `transforms` must make `inputs`.
std::shared_ptr<const SampleSource> PackFirstFit(std::shared_ptr<const SampleSource> documents,
                                                 std::vector<std::shared_ptr<const SampleTransform>> transforms,
                                                 const FirstFitOptions& options);

}  // namespace composer

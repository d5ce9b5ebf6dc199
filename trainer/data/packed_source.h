// Packs documents into rows of one length for language models: the tokens of each, and a separator, follow each other,
// and are cut every T tokens. Source: llm-foundry, ConcatTokensDataset; here while training, in the epoch's order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/core/dataset.h"

namespace composer {

struct PackOptions {
  int64_t max_seq_len = 2048;        // T, at least 1
  std::optional<int64_t> separator;  // a token after each document that does not end with it; unset: none
  bool shuffle = true;               // documents are in a new order each epoch: their source's, if it has one
  uint64_t seed = 0;                 // of that order and of the transforms
  // Samples also have `sequence_id` [T], int64: which document of its row a token is of, from 0 on; padding: -1.
  bool sequence_ids = false;
};

// The place in an order of documents at which a packed epoch goes on: the number of its next document, and which
// document that is. A mixture whose weights change before it, or another seed, would go on with other documents, and
// some would come twice; that is found when a run resumes.
struct DocumentPlace {
  int64_t position = 0;
  int64_t index = -1;  // -1: not known, or behind the last one
};
DocumentPlace PlaceOfDocument(const SampleOrder& order, int64_t epoch, int64_t position);
// Throws when another document is there now.
void CheckPlaceOfDocument(const SampleOrder& order, int64_t epoch, const DocumentPlace& place);

// Returns a source of unknown size whose samples are `inputs` [T] and `targets` [T], int64: tokens [i T, i T + T) and
// one further of the epoch's documents. What is left at the end of an epoch is left out. `transforms` must make
// `inputs`, a row of tokens, of each document. Has places: a resumed run begins with the document where it stopped.
// Every rank reads all documents, since where rows begin depends on the lengths of those before.
std::shared_ptr<const SampleSource> PackDocuments(std::shared_ptr<const SampleSource> documents,
                                                  std::vector<std::shared_ptr<const SampleTransform>> transforms,
                                                  const PackOptions& options);

}  // namespace composer

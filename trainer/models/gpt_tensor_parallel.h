// The GPT of gpt.h with each block split over the ranks of a tensor-parallel group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/core/communicator.h"
#include "trainer/models/gpt.h"

namespace composer {

// Returns this rank's part. Parameters have MakeGpt's names. Attention (by heads), feed-forward (by columns, then
// rows), token embedding and head (by tokens of the vocabulary) are split as SplitParametersOf reports; norms and
// positions are whole on every rank. The values are those of `whole`, which MakeGpt made with these options; when those
// have no memory (device meta), the caller fills the values in (parallel/part_values.h). Every rank of the group is
// given the same batch and gets the same loss. Gradients are whole: the sums over the group are part of backward.
//
//   forward        training: logits [B, T, vocab / t] of this rank's part of the vocabulary
//                  (parallel/vocab_parallel.h); eval(): whole logits, gathered
//   eval_forward   with targets: this rank's part; without: same as forward
//   loss, metrics  accept either, exact
//
// The model is equal to MakeGpt except for the order of sums: losses differ by rounding only. Dropout draws each rank's
// own masks for its tokens and heads (tensor_rank_random.h); the default generators must be in the same state on all
// ranks.
// group must outlive the model. Throws c10::ValueError for invalid options, when the heads do not split over the ranks,
// when there are fewer tokens than ranks, and, from forward, when the context has no room to make sequences a multiple
// of the degree.
std::shared_ptr<Model> MakeTensorParallelGpt(const GptOptions& options, const Model& whole, Communicator& group);

}  // namespace composer

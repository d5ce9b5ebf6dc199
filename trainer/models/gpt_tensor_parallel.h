// The GPT of gpt.h with each block shared by the ranks of a tensor-parallel group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/models/gpt.h"
#include "trainer/parallel/communicator.h"

namespace composer {

// This rank's part. Parameters have MakeGpt's names; attention (by heads) and feed-forward (by columns, then rows) are
// split, TensorShards says how; embeddings, norms and head are whole on every rank, but each rank applies them to its own
// tokens only. The values are those of `whole`, which MakeGpt made with these options. Inputs and logits are those of the whole sequence; every rank of the group is given the same batch and has the
// same loss. Gradients are whole: the sums over the group are part of backward.
//
// Equal to MakeGpt but for the order of sums: losses differ by rounding only. Dropout draws masks of each rank's own for
// its tokens and heads (tensor_rank_random.h); the default generators must be alike on all ranks.
// group must outlive the model. Throws c10::ValueError for bad options, when heads do not split over the ranks, and, from
// forward, when the length of sequences does not.
std::shared_ptr<Model> MakeTensorParallelGpt(const GptOptions& options, const Model& whole, Communicator& group);

}  // namespace composer

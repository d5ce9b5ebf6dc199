// This implements tensor parallelism over a vocabulary: each rank of a group holds the rows of some tokens, of the
// embedding and of the head that scores the next token, and scores only these; the whole logits exist nowhere. Shoeybi
// et al. 2019, arXiv:1909.08053, section 3. TensorSplit splits the rows: sizes differ by at most one, nothing is
// padded.
//
// Every rank of a group sees the same tokens. Functions are differentiable, and gradients are whole on every rank that
// holds them, as in tensor_parallel.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/core/communicator.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

namespace composer {

// This is a matrix [vocab, width] with a row per token, of which this rank holds some: parameter weight [vocab / t,
// width].
class VocabParallelWeight final : public TensorParallelModule {
 public:
  // Throws c10::ValueError when there are fewer tokens than ranks. The values are 0.
  VocabParallelWeight(int64_t vocab, int64_t width, const Communicator& group);

  std::vector<SplitParameter> SplitParameters() const override { return {{"weight", weight, split_}}; }
  const TensorSplit& split() const { return split_; }

  // Maps tokens, int64 [..], to their rows [.., width], 0 for those of other ranks; the result must be summed over the
  // group. Throws c10::IndexError for a token that is not in the vocabulary (on a GPU: a device assertion).
  at::Tensor Embed(const at::Tensor& tokens) const;
  // Maps x [.., width], the same on all ranks, to [.., vocab / t], the logits of this rank's tokens. The gradient of x
  // is a part of a sum over ranks (GatherSequence sums it).
  at::Tensor Logits(const at::Tensor& x) const;

  at::Tensor weight;

 private:
  TensorSplit split_;
};

// Maps logits [B, T, vocab / t] of this rank's tokens and targets int64 [B, T] to float32 [B, T]: -log softmax(all
// logits)[target], 0 where the target is ignore_index; the same bits on every rank. It takes one all-gather of 3
// numbers per target: the maximum of the rank's logits, the sum of exp(logit - maximum), and the target's logit if the
// rank has it. Those of all logits follow from these, as exactly as in torch's log_softmax. Sums are in float32
// (float64 for float64 logits). Backward does not communicate; it needs the saved logits and a few numbers per target.
// `split` is that of the vocabulary's rows. Throws as VocabParallelWeight::Embed does.
at::Tensor VocabParallelLosses(const at::Tensor& logits, const at::Tensor& targets, const TensorSplit& split,
                               Communicator& group, int64_t ignore_index = -100);

// Gathers logits [B, T, vocab / t] of each rank to [B, T, vocab] on every rank. Backward takes this rank's part, so all
// ranks must continue with the same computation.
at::Tensor GatherVocabulary(const at::Tensor& logits, const TensorSplit& split, Communicator& group);

}  // namespace composer

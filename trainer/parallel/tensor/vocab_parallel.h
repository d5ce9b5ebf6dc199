// Tensor parallelism over a vocabulary: each rank of a group has the rows of some tokens, of the embedding and of the head
// that scores the next token, and scores these only; the whole logits exist nowhere. Shoeybi et al. 2019,
// arXiv:1909.08053, section 3. Rows are split by TensorSplit: sizes differ by one at most, nothing is padded.
//
// Every rank of a group sees the same tokens. Functions are differentiable, and gradients are whole on every rank that
// holds them, as those of tensor_parallel.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/core/communicator.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

namespace composer {

// A matrix [vocab, width] with a row for each token, of which this rank has some: parameter weight [vocab / t, width].
class VocabParallelWeight final : public TensorParallelModule {
 public:
  // Throws c10::ValueError when there are fewer tokens than ranks. The values are 0.
  VocabParallelWeight(int64_t vocab, int64_t width, const Communicator& group);

  std::vector<SplitParameter> SplitParameters() const override { return {{"weight", weight, split_}}; }
  const TensorSplit& split() const { return split_; }

  // tokens int64 [..] -> [.., width]: their rows, 0 for those of other ranks; to be summed over the group. Throws
  // c10::IndexError for a token that is not in the vocabulary (on a GPU: an assertion there).
  at::Tensor Embed(const at::Tensor& tokens) const;
  // x [.., width], the same on all ranks -> [.., vocab / t]: the logits of this rank's tokens. The gradient of x is a part
  // of a sum over ranks (GatherSequence sums it).
  at::Tensor Logits(const at::Tensor& x) const;

  at::Tensor weight;

 private:
  TensorSplit split_;
};

// logits [B, T, vocab / t] of this rank's tokens, targets int64 [B, T] -> float32 [B, T]: -log softmax(all logits)[target],
// 0 where the target is ignore_index; the same bits on every rank. One all-gather of 3 numbers a target: the largest of
// the rank's logits, the sum of exp(logit - largest), and the target's logit where the rank has it; from these follow those
// of all logits, as exactly as torch's log_softmax has them. Sums are in float32 (float64 of such logits). Backward talks
// to nobody. Saved for it: logits, and a few numbers a target.
// split: of the vocabulary's rows. Throws as VocabParallelWeight::Embed.
at::Tensor VocabParallelLosses(const at::Tensor& logits, const at::Tensor& targets, const TensorSplit& split,
                               Communicator& group, int64_t ignore_index = -100);

// logits [B, T, vocab / t] of each rank -> [B, T, vocab], on every rank. Backward takes this rank's part: all ranks must
// go on with the same computation.
at::Tensor GatherVocabulary(const at::Tensor& logits, const TensorSplit& split, Communicator& group);

}  // namespace composer

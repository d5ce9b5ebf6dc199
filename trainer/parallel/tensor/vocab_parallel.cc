// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/vocab_parallel.h"

#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/types.h>

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Says which tokens are among this rank's rows, and their rows there; 0 for others.
struct LocalRows {
  at::Tensor are_local;  // bool
  at::Tensor rows;       // int64
};

LocalRows LocalRowsOf(const at::Tensor& tokens, const TensorSplit& split) {
  const TensorSplit::Part part = split.Parts()[0];
  const at::Tensor rows = tokens - part.whole;
  const at::Tensor are_local = rows.ge(0).logical_and_(rows.lt(part.size));
  return {are_local, rows * are_local};
}

// `valid` is bool. Does not wait for a GPU.
void CheckTokens(const at::Tensor& valid, const char* what, const TensorSplit& split) {
  const at::Tensor all = valid.all();
  if (valid.is_cpu()) {
    TORCH_CHECK_INDEX(all.item<bool>(), what, " out of range: the vocabulary has ", split.shape[0], " tokens");
  } else {
    at::_assert_async(all, "a token is out of range of the vocabulary");
  }
}

at::Tensor InVocabulary(const at::Tensor& tokens, const TensorSplit& split) {
  return tokens.ge(0).logical_and_(tokens.lt(split.shape[0]));
}

// Gathers each rank's own to [ranks, …].
at::Tensor AllGather(const at::Tensor& own, Communicator& group) {
  std::vector<int64_t> sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), group.world_size());
  const at::Tensor all = at::empty(sizes, own.options());
  group.StartAllGather(all, own.contiguous())->Wait();
  return all;
}

at::Tensor ForSums(const at::Tensor& logits) {
  return logits.to(logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

struct LossesFunction : torch::autograd::Function<LossesFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                            const TensorSplit* split, Communicator* group, int64_t ignore_index) {
    const at::Tensor ignored = targets.eq(ignore_index);
    CheckTokens(InVocabulary(targets, *split).logical_or_(ignored), "cross-entropy: a target is", *split);
    const LocalRows local = LocalRowsOf(targets, *split);
    const at::Tensor x = ForSums(logits);
    const at::Tensor own_target = x.gather(-1, local.rows.unsqueeze(-1)).squeeze(-1).masked_fill_(~local.are_local, 0);
    const at::Tensor own_max = x.amax(-1);
    const at::Tensor finite_max = own_max.masked_fill(own_max.isinf(), 0);  // all of this rank's may be -inf
    const at::Tensor own_sum = (x - finite_max.unsqueeze(-1)).exp_().sum(-1);
    const at::Tensor all = AllGather(at::stack({own_max, own_sum, own_target}), *group);
    const at::Tensor max = all.select(1, 0).amax(0);
    const at::Tensor log_sum = (all.select(1, 1) * (all.select(1, 0) - max).exp()).sum(0).log_();
    context->save_for_backward({logits, max, log_sum, ignored, local.are_local, local.rows});
    return (log_sum - (all.select(1, 2).sum(0) - max)).masked_fill_(ignored, 0);
  }

  // The gradient is softmax - 1 at the target, times the loss's gradient.
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &logits = saved[0], &max = saved[1], &log_sum = saved[2], &ignored = saved[3];
    const at::Tensor &are_local = saved[4], &rows = saved[5];
    const at::Tensor grad = (ForSums(logits) - max.unsqueeze(-1)).sub_(log_sum.unsqueeze(-1)).exp_();
    grad.scatter_add_(-1, rows.unsqueeze(-1), are_local.to(grad.scalar_type()).neg_().unsqueeze(-1));
    grad.mul_(grads[0].masked_fill(ignored, 0).unsqueeze(-1));
    return {grad.to(logits.scalar_type()), {}, {}, {}, {}};
  }
};

struct GatherVocabularyFunction : torch::autograd::Function<GatherVocabularyFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const TensorSplit* split,
                            Communicator* group) {
    const TensorSplit::Part own = split->Parts()[0];
    context->saved_data["begin"] = own.whole;
    context->saved_data["size"] = own.size;
    TensorSplit of_rank = *split;
    of_rank.rank = 0;
    const int64_t shorter = of_rank.Parts()[0].size - own.size;  // difference to rank 0's, which is the longest
    const at::Tensor all = AllGather(shorter == 0 ? logits : at::constant_pad_nd(logits, {0, shorter}), *group);
    std::vector<at::Tensor> parts;
    for (; of_rank.rank < split->ranks; ++of_rank.rank)
      parts.push_back(all[of_rank.rank].narrow(-1, 0, of_rank.Parts()[0].size));
    return at::cat(parts, -1);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {grads[0].narrow(-1, context->saved_data["begin"].toInt(), context->saved_data["size"].toInt()), {}, {}};
  }
};

}  // namespace

VocabParallelWeight::VocabParallelWeight(int64_t vocab, int64_t width, const Communicator& group)
    : split_{{vocab, width}, 0, 1, group.world_size(), group.rank()} {
  TORCH_CHECK_VALUE(vocab >= group.world_size(), "tensor parallelism: a vocabulary of ", vocab,
                    " tokens does not split over tensor_parallel_degree ", group.world_size());
  weight = register_parameter("weight", torch::zeros(split_.LocalShape()));
}

at::Tensor VocabParallelWeight::Embed(const at::Tensor& tokens) const {
  CheckTokens(InVocabulary(tokens, split_), "embedding: a token is", split_);
  const LocalRows local = LocalRowsOf(tokens, split_);
  return at::embedding(weight, local.rows).masked_fill(~local.are_local.unsqueeze(-1), 0);
}

at::Tensor VocabParallelWeight::Logits(const at::Tensor& x) const { return at::linear(x, weight); }

at::Tensor VocabParallelLosses(const at::Tensor& logits, const at::Tensor& targets, const TensorSplit& split,
                               Communicator& group, int64_t ignore_index) {
  TORCH_CHECK_VALUE(
      targets.sizes() == logits.sizes().slice(0, logits.dim() - 1) && logits.size(-1) == split.Parts()[0].size,
      "cross-entropy: logits ", logits.sizes(), " do not fit targets ", targets.sizes(), " and this rank's ",
      split.Parts()[0].size, " of the vocabulary");
  return LossesFunction::apply(logits, targets, &split, &group, ignore_index);
}

at::Tensor GatherVocabulary(const at::Tensor& logits, const TensorSplit& split, Communicator& group) {
  return GatherVocabularyFunction::apply(logits, &split, &group);
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/chunked_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/core/block.h"
#include "trainer/parallel/activations/activation_checkpoint.h"

namespace composer {

// Not a part of the model's tree: it has no parameters of its own.
class ChunkedLoss::HeadAndLoss final : public Block {
 public:
  HeadAndLoss(Head head, LossOf loss) : head_(std::move(head)), loss_(std::move(loss)) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return loss_(head_(inputs[0]), inputs[1]); }

 private:
  Head head_;
  LossOf loss_;
};

ChunkedLoss::ChunkedLoss(int64_t chunk, Head head, LossOf loss)
    : chunk_(chunk), block_(std::make_shared<HeadAndLoss>(std::move(head), std::move(loss))) {
  block_->Wrap(std::make_shared<ActivationCheckpoint>());
}

ChunkedLoss::~ChunkedLoss() = default;

at::Tensor ChunkedLoss::Losses(const at::Tensor& x, const at::Tensor& targets) {
  TORCH_CHECK_VALUE(x.dim() == 3 && targets.sizes() == x.sizes().slice(0, 2) && !targets.is_floating_point(),
                    "loss_chunk_tokens: expected integer targets [B, T] for ", x.sizes(), ", got ",
                    targets.scalar_type(), targets.sizes());
  const at::Tensor rows = x.flatten(0, 1), wanted = targets.flatten();
  std::vector<at::Tensor> losses;
  for (int64_t begin = 0; begin < rows.size(0); begin += chunk_) {
    const int64_t end = std::min(begin + chunk_, rows.size(0));
    losses.push_back(block_->Run({rows.slice(0, begin, end), wanted.slice(0, begin, end)}));
  }
  return at::cat(losses).view(targets.sizes());
}

}  // namespace composer

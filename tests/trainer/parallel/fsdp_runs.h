// Runs of a small model of blocks, for the tests of sharding: 10 steps of batches of 8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainer/loop/small_run.h"
#include "trainer/core/block.h"
#include "trainer/models/classifier.h"
#include "trainer/options/fsdp_options.h"

namespace composer {

class TestBlock final : public Block {
 public:
  explicit TestBlock(int64_t width)
      : norm_(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})))),
        up_(register_module("up", torch::nn::Linear(8, width))),
        down_(register_module("down", torch::nn::Linear(width, 8))) {}

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    return inputs[0] + down_->forward(at::gelu(up_->forward(norm_->forward(inputs[0]))));
  }

 private:
  torch::nn::LayerNorm norm_;
  torch::nn::Linear up_, down_;
};

struct Shape {
  bool frozen = false;    // freezes the first block's `up`
  bool unused = false;    // adds a block that forward leaves out
  bool tied = false;      // the head's weight is also a block's parameter
  bool reversed = false;  // the blocks run against the order of the model
  bool twice = false;     // one block runs twice
  bool equal = false;     // all blocks have one size: another one's weights would fit
};

class BlockModel final : public Classifier {
 public:
  explicit BlockModel(const Shape& shape) : shape_(shape), in_(8, 8), head_(8, 8) {
    register_module("in", in_);
    for (const int64_t width : {5, 16, 40}) {
      blocks_.push_back(std::make_shared<TestBlock>(shape.equal ? 16 : width));
      register_module("block" + std::to_string(blocks_.size()), blocks_.back());
    }
    register_module("head", head_);
    FillParameters(*this);
    if (shape.frozen) blocks_[0]->named_parameters()["up.weight"].requires_grad_(false);
    if (shape.tied) blocks_[1]->register_parameter("tied", head_->weight);
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override {
    at::Tensor x = in_->forward(inputs);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const size_t b = shape_.reversed ? blocks_.size() - 1 - i : i;
      if (shape_.unused && b == 1) continue;
      x = blocks_[b]->forward(x);
      if (shape_.twice && b == 2) x = blocks_[b]->forward(x);
    }
    return head_->forward(x).slice(1, 0, 4);
  }

 private:
  Shape shape_;
  torch::nn::Linear in_, head_;
  std::vector<std::shared_ptr<TestBlock>> blocks_;
};

struct Case {
  Shape shape;
  int64_t microbatch = 0;
  int64_t global_batch = 8;
  Precision precision = Precision::kFp32;
  FsdpOptions fsdp;
  ActivationOptions activations;
};

inline TrainerOptions OptionsOf(const Case& c) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<BlockModel>(c.shape);
  options.train.global_train_batch_size = c.global_batch;
  options.device_train_microbatch_size = c.microbatch;
  options.precision = c.precision;
  options.activations = c.activations;
  options.max_duration = Time::Batches(10);
  return options;
}

inline std::vector<RunResult> TrainSharded(int ranks, const Case& c) {
  return TrainOnRanks(ranks, [&](int rank) {
    TrainerOptions options = OptionsOf(c);
    options.fsdp = c.fsdp;
    return options;
  });
}

// Returns |a - b| / |b| over all tensors together.
inline double RelativeError(const RunResult& a, const RunResult& b) {
  if (a.tensors.size() != b.tensors.size() || a.tensors.empty()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].second.sizes() != b.tensors[i].second.sizes()) return INFINITY;
    const at::Tensor x = a.tensors[i].second.to(at::kDouble), y = b.tensors[i].second.to(at::kDouble);
    difference += (x - y).square().sum().item<double>();
    norm += y.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

}  // namespace composer

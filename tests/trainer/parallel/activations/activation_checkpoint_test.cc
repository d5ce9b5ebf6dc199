// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/activations/activation_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <thread>

#include "tests/support/tensor_bytes.h"
#include "tests/support/threads_communicator.h"
#include "trainer/loop/autocast.h"
#include "trainer/parallel/activations/activation_offload.h"
#include "trainer/parallel/ddp/gradient_reducer.h"

namespace composer {
namespace {

// A block whose forward is given by the test.
class AnyBlock final : public Block {
 public:
  using Fn = std::function<at::Tensor(AnyBlock&, const std::vector<at::Tensor>&)>;
  explicit AnyBlock(Fn fn) : fn_(std::move(fn)) {}
  int calls = 0;

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    ++calls;
    return fn_(*this, inputs);
  }

 private:
  Fn fn_;
};

// Linear, norm, GELU, dropout, Linear, with a residual connection. A second input multiplies the norm's output.
class DeepLayer final : public Block {
 public:
  explicit DeepLayer(int64_t width)
      : fc_(register_module("fc", torch::nn::Linear(width, 2 * width))),
        norm_(register_module("norm", torch::nn::BatchNorm1d(2 * width))),
        proj_(register_module("proj", torch::nn::Linear(2 * width, width))) {}
  int calls = 0, whole_calls = 0;

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    ++calls;
    at::Tensor y = norm_->forward(fc_->forward(inputs[0]));
    if (inputs.size() > 1 && inputs[1].defined()) y = y * inputs[1];
    y = proj_->forward(at::dropout(at::gelu(y), 0.3, is_training()));
    ++whole_calls;
    return inputs[0] + y;
  }

 private:
  torch::nn::Linear fc_;
  torch::nn::BatchNorm1d norm_;
  torch::nn::Linear proj_;
};

struct Net {
  explicit Net(int num_layers, int64_t width = 8) {
    torch::manual_seed(3);
    for (int i = 0; i < num_layers; ++i) layers.push_back(std::make_shared<DeepLayer>(width));
  }
  at::Tensor Forward(at::Tensor x, const at::Tensor& gate = {}) const {
    for (const auto& layer : layers) x = layer->Run({x, gate});
    return x;
  }
  std::vector<at::Tensor> Parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& layer : layers) {
      for (const at::Tensor& param : layer->parameters()) all.push_back(param);
    }
    return all;
  }
  // Returns gradients, followed by buffers.
  std::vector<at::Tensor> Outcome() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& param : Parameters()) all.push_back(param.grad());
    for (const auto& layer : layers) {
      for (const at::Tensor& buffer : layer->buffers()) all.push_back(buffer);
    }
    return all;
  }
  std::vector<std::shared_ptr<DeepLayer>> layers;
};

void ExpectSame(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (a[i].defined()) {
      EXPECT_TRUE(torch::equal(a[i], b[i])) << i;
    }
  }
}

void Checkpoint(Net& net) {
  for (const auto& layer : net.layers) layer->Wrap(std::make_shared<ActivationCheckpoint>());
}

TEST(ActivationCheckpoint, GradientsBuffersAndRandomStateAreThoseWithoutIt) {
  for (const Precision precision : {Precision::kFp32, Precision::kAmpBf16}) {
    Net plain(3), saving(3);
    Checkpoint(saving);
    std::vector<double> next;
    for (Net* net : {&plain, &saving}) {
      torch::manual_seed(11);
      for (int microbatch = 0; microbatch < 3; ++microbatch) {  // accumulated; each with its own masks
        at::Tensor loss;
        {
          const AutocastScope autocast(precision, at::kCPU);
          loss = net->Forward(torch::randn({5, 8}), torch::randn({5, 16})).pow(2).mean();
        }
        loss.backward();
      }
      next.push_back(torch::rand({1}).item<double>());
    }
    ExpectSame(plain.Outcome(), saving.Outcome());
    EXPECT_EQ(next[0], next[1]) << "the generator is where it would be";
    EXPECT_EQ(saving.layers[1]->calls, 6);
    EXPECT_EQ(saving.layers[1]->whole_calls, 3) << "the second run ends with the last tensor that is wanted";
  }
}

TEST(ActivationCheckpoint, FrozenParametersAndInputsWithoutGradient) {
  Net plain(2), saving(2);
  Checkpoint(saving);
  for (Net* net : {&plain, &saving}) {
    for (at::Tensor param : net->layers[0]->named_children()["fc"]->parameters()) param.set_requires_grad(false);
    torch::manual_seed(1);
    const at::Tensor gate = torch::rand({4, 16}).requires_grad_();
    net->Forward(torch::ones({4, 8}), gate).sum().backward();
    EXPECT_TRUE(gate.grad().defined());
  }
  ExpectSame(plain.Outcome(), saving.Outcome());
  Net frozen(1);
  Checkpoint(frozen);
  for (at::Tensor param : frozen.Parameters()) param.set_requires_grad(false);
  EXPECT_FALSE(frozen.Forward(torch::ones({4, 8})).requires_grad());
  EXPECT_EQ(frozen.layers[0]->calls, 1);
}

TEST(ActivationCheckpoint, NoGradRunsOnce) {
  Net net(1);
  Checkpoint(net);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(net.Forward(torch::ones({4, 8})).requires_grad());
  EXPECT_EQ(net.layers[0]->calls, 1);
}

// In a block of blocks, all checkpointed, the inner blocks' inputs are recomputed, too.
TEST(ActivationCheckpoint, Nested) {
  Net plain(3), saving(3);
  for (Net* net : {&plain, &saving}) {
    AnyBlock outer([net](AnyBlock&, const std::vector<at::Tensor>& inputs) { return net->Forward(inputs[0]); });
    for (size_t i = 0; i < net->layers.size(); ++i) outer.register_module(std::to_string(i), net->layers[i]);
    if (net == &saving) {
      Checkpoint(saving);
      outer.Wrap(std::make_shared<ActivationCheckpoint>());
    }
    torch::manual_seed(4);
    (outer.forward(torch::randn({6, 8})) * 3).sum().backward();
    EXPECT_EQ(outer.calls, net == &saving ? 2 : 1);
    EXPECT_EQ(net->layers[0]->calls, net == &saving ? 3 : 1);
  }
  ExpectSame(plain.Outcome(), saving.Outcome());
}

TEST(ActivationCheckpoint, ParametersSharedByBlocksAndPostAccumulateHooks) {
  std::vector<std::vector<at::Tensor>> grads;
  for (const bool checkpoint : {false, true}) {
    torch::manual_seed(8);
    const std::vector<at::Tensor> params = {torch::randn({4, 4}).requires_grad_(),
                                            torch::randn({4, 4}).requires_grad_()};
    const auto both = [&](AnyBlock&, const std::vector<at::Tensor>& in) {
      return in[0].mm(params[0]).tanh().mm(params[1]).tanh();
    };
    AnyBlock first(both), second(both);
    if (checkpoint) {
      first.Wrap(std::make_shared<ActivationCheckpoint>());
      second.Wrap(std::make_shared<ActivationCheckpoint>());
    }
    ThreadsExchange exchange(1);
    ThreadsCommunicator communicator(exchange, 0);
    GradientReducer reducer(params, communicator, {});
    reducer.Arm();
    second.forward(first.forward(torch::ones({3, 4}))).sum().backward();
    reducer.Finish();
    EXPECT_EQ(communicator.num_collectives(), reducer.num_buckets());
    grads.push_back({params[0].grad().clone(), params[1].grad().clone()});
  }
  ExpectSame(grads[0], grads[1]);
}

TEST(ActivationCheckpoint, RetainedGraphsAndPartialGradients) {
  Net net(2);
  Checkpoint(net);
  const at::Tensor x = torch::ones({4, 8}).requires_grad_();
  torch::manual_seed(5);
  const at::Tensor y = net.Forward(x).sum();
  const at::Tensor once = torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true)[0];
  const at::Tensor twice = torch::autograd::grad({y}, {x})[0];
  EXPECT_TRUE(torch::equal(once, twice));
  EXPECT_EQ(net.layers[0]->calls, 2) << "what was computed again is kept with the graph";
}

// The block computes a gradient inside its forward, as a gradient penalty does.
TEST(ActivationCheckpoint, GradientsWithinABlock) {
  std::vector<at::Tensor> grads;
  for (const bool checkpoint : {false, true}) {
    const at::Tensor weight = torch::full({3}, 2.0).requires_grad_();
    AnyBlock block([&](AnyBlock&, const std::vector<at::Tensor>& in) {
      const at::Tensor x = in[0].detach().requires_grad_();
      const at::Tensor y = (x * weight).exp().sum();
      return torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0].pow(2).sum() + y;
    });
    if (checkpoint) block.Wrap(std::make_shared<ActivationCheckpoint>());
    block.forward(torch::ones({3})).backward();
    grads.push_back(weight.grad());
  }
  EXPECT_TRUE(torch::equal(grads[0], grads[1])) << grads[0] << grads[1];
}

// Softmax, tanh and attention save what they return.
TEST(ActivationCheckpoint, NothingStaysOfOperationsThatSaveWhatTheyReturn) {
  AnyBlock block([](AnyBlock&, const std::vector<at::Tensor>& inputs) {
    const at::Tensor x = inputs[0].tanh();
    return at::scaled_dot_product_attention(x, x, x).softmax(-1);
  });
  block.Wrap(std::make_shared<ActivationCheckpoint>());
  const TensorBytes bytes;
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = torch::randn({2, 2, 16, 8}).requires_grad_();
    block.forward(x).square().sum().backward();
    EXPECT_TRUE(x.grad().defined());
  }
  EXPECT_EQ(block.calls, 6);
  EXPECT_EQ(bytes.live(), 0);
}

// Its context holds the output, and the output its node, until all is saved.
struct SavesItsOutput : torch::autograd::Function<SavesItsOutput> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    at::Tensor y = x.exp();
    ctx->save_for_backward({y, x});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    return {grads[0] * ctx->get_saved_variables()[0]};
  }
};

TEST(ActivationCheckpoint, NothingStaysOfACustomFunctionThatSavesItsOutput) {
  const at::Tensor outside = torch::ones({16, 8}).requires_grad_().exp();
  AnyBlock block([&](AnyBlock&, const std::vector<at::Tensor>& in) { return SavesItsOutput::apply(in[0] * outside); });
  block.Wrap(std::make_shared<ActivationCheckpoint>());
  const TensorBytes bytes;
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = torch::randn({16, 8}).requires_grad_();
    block.forward(x).sum().backward({}, /*retain_graph=*/true, /*create_graph=*/false, /*inputs=*/{{x}});
    EXPECT_TRUE(torch::allclose(x.grad(), outside * (x * outside).exp()));
  }
  EXPECT_EQ(block.calls, 6);
  EXPECT_EQ(bytes.live(), 0);
  EXPECT_TRUE(outside.grad_fn()) << "a tensor from outside the block has lost its node";
}

// As on a GPU, whose backward has a thread of its own: each thread numbers its nodes from 0.
TEST(ActivationCheckpoint, TensorsFromOutsideKeepTheirNodesWhereAnotherThreadRunsBackward) {
  const at::Tensor outside = torch::ones({16, 8}).requires_grad_().exp();
  AnyBlock block([&](AnyBlock&, const std::vector<at::Tensor>& in) { return (in[0] * outside).exp(); });
  block.Wrap(std::make_shared<ActivationCheckpoint>());
  const at::Tensor loss = block.forward(torch::randn({16, 8}).requires_grad_()).sum();
  std::thread([&] { loss.backward(); }).join();
  EXPECT_EQ(block.calls, 2);
  EXPECT_TRUE(outside.grad_fn());
}

TEST(ActivationCheckpoint, SaysSoWhenTheSecondRunDiffers) {
  const at::Tensor w = torch::ones({2}).requires_grad_();
  AnyBlock other_shape([&](AnyBlock& block, const std::vector<at::Tensor>& in) {
    return block.calls == 1 ? (in[0] * w).exp().sum() : (in[0] * w).slice(0, 0, 1).exp().sum();
  });
  AnyBlock fewer([&](AnyBlock& block, const std::vector<at::Tensor>& in) {
    return block.calls == 1 ? (in[0] * w).exp().sum() : (in[0] + w).sum();
  });
  AnyBlock in_place([&](AnyBlock&, const std::vector<at::Tensor>& in) {
    return in[0].mul_(2).mul(w).sum();  // the second run would double it again
  });
  const auto error = [](AnyBlock& block) -> std::string {
    block.Wrap(std::make_shared<ActivationCheckpoint>());
    try {
      block.forward(torch::ones({2}).requires_grad_() + 0).backward();
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "";
  };
  EXPECT_THAT(error(other_shape), testing::HasSubstr("in the forward, but a"));
  EXPECT_THAT(error(fewer), testing::HasSubstr("was not saved when it ran again"));
  EXPECT_THAT(error(in_place), testing::HasSubstr("modified by an inplace operation"));
}

TEST(ActivationCheckpoint, AnErrorInTheSecondRunComesOutOfBackward) {
  const at::Tensor w = torch::ones({2}).requires_grad_();
  AnyBlock block([&](AnyBlock& self, const std::vector<at::Tensor>& in) {
    if (self.calls == 2) throw c10::OutOfMemoryError({__func__, __FILE__, 0}, "no memory left");
    return (in[0] * w).exp().sum();
  });
  block.Wrap(std::make_shared<ActivationCheckpoint>());
  const at::Tensor y = block.forward(torch::ones({2}));
  EXPECT_THROW(y.backward(), c10::OutOfMemoryError);
  EXPECT_TRUE((w * 2).sum().requires_grad()) << "no scope is left open";
}

constexpr int64_t kWidth = 16;

struct Mlp final : Block {
  Mlp()
      : fc(register_module("fc", torch::nn::Linear(kWidth, 4 * kWidth))),
        proj(register_module("proj", torch::nn::Linear(4 * kWidth, kWidth))) {}
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    return proj->forward(at::gelu(fc->forward(inputs[0])));
  }
  torch::nn::Linear fc, proj;
};

// N layers proj(gelu(fc(x))) of width w -> 4w -> w run on B rows. Kept for backward, in units of B w floats, are the
// inputs of fc, of GELU and of proj: 1 + 4 + 4 per layer. Checkpointing keeps 1 per layer and, while one layer runs
// again, its other 8. So at the peak, when backward is in the last layer, checkpointing saves 8 (N - 1) units.
TEST(ActivationCheckpoint, MemoryFallsAsPredicted) {
  constexpr int64_t kLayers = 8, kRows = 4096, kUnit = kRows * kWidth * 4;
  const auto measure = [&](int every) {  // every = 0: none; n: the first of each n
    std::vector<std::shared_ptr<Mlp>> layers;
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(std::make_shared<Mlp>());
      if (every > 0 && i % every == 0) layers.back()->Wrap(std::make_shared<ActivationCheckpoint>());
    }
    TensorBytes bytes;
    at::Tensor x = torch::randn({kRows, kWidth});
    for (const auto& layer : layers) x = layer->forward(x);
    const int64_t after_forward = bytes.live();
    x.sum().backward();
    x.reset();
    return std::make_pair(after_forward, bytes.peak());
  };
  const auto [kept_plain, peak_plain] = measure(0);
  const auto [kept_saving, peak_saving] = measure(1);
  const auto [kept_half, peak_half] = measure(2);
  const double unit = kUnit;
  EXPECT_NEAR(static_cast<double>(kept_plain) / unit, 9 * kLayers + 1, 0.02 * 9 * kLayers);
  EXPECT_NEAR(static_cast<double>(kept_saving) / unit, kLayers + 1, 0.3);
  EXPECT_NEAR(static_cast<double>(kept_half) / unit, 5 * kLayers + 1, 0.02 * 5 * kLayers);
  EXPECT_NEAR(static_cast<double>(peak_plain - peak_saving) / unit, 8 * (kLayers - 1), 0.02 * 8 * (kLayers - 1));
  EXPECT_LT(peak_half, peak_plain);
  RecordProperty("peak_plain", std::to_string(peak_plain));
  RecordProperty("peak_saving", std::to_string(peak_saving));
}

ActivationOffload::Options CopyEverything() {
  ActivationOffload::Options options;
  options.min_bytes = 0;
  options.copy_on_cpu = true;
  return options;
}

TEST(ActivationOffload, GradientsAreThoseWithoutItAndParametersStay) {
  Net plain(2), away(2);
  std::vector<std::shared_ptr<ActivationOffload>> wrappers;
  for (const auto& layer : away.layers) {
    wrappers.push_back(std::make_shared<ActivationOffload>(*layer, CopyEverything()));
    layer->Wrap(wrappers.back());
  }
  for (Net* net : {&plain, &away}) {
    torch::manual_seed(2);
    net->Forward(torch::randn({4, 8})).sum().backward();
  }
  ExpectSame(plain.Outcome(), away.Outcome());
  EXPECT_GE(wrappers[0]->counts().moved, 4) << "input, norm's input, GELU's, dropout's mask, proj's input";
  EXPECT_GE(wrappers[0]->counts().stayed, 2) << "the weights";
  EXPECT_EQ(away.layers[0]->calls, 1);
}

TEST(ActivationOffload, OnACpuNothingMoves) {
  Net net(1);
  const auto wrapper = std::make_shared<ActivationOffload>(*net.layers[0]);
  net.layers[0]->Wrap(wrapper);
  net.Forward(torch::ones({4, 8})).sum().backward();
  EXPECT_EQ(wrapper->counts().moved, 0);
  EXPECT_GT(wrapper->counts().stayed, 0);
}

TEST(ActivationOffload, AroundACheckpointItMovesTheInputsAlone) {
  Net plain(1), both(1);
  both.layers[0]->Wrap(std::make_shared<ActivationCheckpoint>());
  const auto offload = std::make_shared<ActivationOffload>(*both.layers[0], CopyEverything());
  both.layers[0]->Wrap(offload);
  for (Net* net : {&plain, &both}) {
    torch::manual_seed(2);
    net->Forward(torch::randn({4, 8})).sum().backward();
  }
  ExpectSame(plain.Outcome(), both.Outcome());
  EXPECT_EQ(offload->counts().moved, 1);
  EXPECT_EQ(offload->counts().moved_bytes, 4 * 8 * 4);
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/gpt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <cmath>

#include "trainer/loop/autocast.h"

namespace composer {
namespace {

using ::testing::Contains;
using ::testing::Not;

GptOptions Small() {
  GptOptions options;
  options.layers = 2;
  options.heads = 2;
  options.width = 16;
  options.context = 8;
  options.vocab = 11;
  return options;
}

Batch Tokens(at::Tensor inputs) {
  Batch batch;
  batch.targets = inputs.roll(-1, 1);
  batch.num_samples = inputs.size(0);
  batch.inputs = std::move(inputs);
  return batch;
}

TEST(Gpt, NamesAndSize) {
  GptOptions options = Small();
  const auto model = MakeGpt(options);
  const std::vector<std::string> names = model->named_parameters().keys();
  EXPECT_THAT(names, Contains("transformer.blocks.0.attn.qkv.weight"));
  EXPECT_THAT(names, Contains("transformer.blocks.1.mlp.proj.bias"));
  EXPECT_THAT(names, Contains("transformer.ln_f.weight"));
  EXPECT_THAT(names, Not(Contains("lm_head.weight")));
  const auto count = [](const std::shared_ptr<Model>& m) {
    int64_t parameters = 0;
    for (const at::Tensor& p : m->parameters()) parameters += p.numel();
    return parameters;
  };
  const int64_t block = 12 * 16 * 16 + 13 * 16;
  EXPECT_EQ(count(model), 11 * 16 + 8 * 16 + 2 * block + 2 * 16);
  options.tied_head = false;
  const auto untied = MakeGpt(options);
  EXPECT_EQ(count(untied), count(model) + 11 * 16);
  EXPECT_THAT(untied->named_parameters().keys(), Contains("lm_head.weight"));
  EXPECT_EQ(model->flops_per_sample(), 8 * (6 * (2 * 12 * 256 + 11 * 16) + 12 * 2 * 16 * 8));
}

TEST(Gpt, KeepsAttentionWithinDocuments) {
  torch::manual_seed(7);
  const torch::NoGradGuard no_grad;
  const auto model = MakeGpt(Small());
  Batch packed = Tokens(torch::tensor({{1, 2, 3, 4, 5, 6}}, at::kLong));
  Batch alone = Tokens(packed.inputs.slice(1, 0, 4)), other = packed, all = packed;
  packed.extra["sequence_id"] = torch::tensor({{0, 0, 0, 0, 1, 1}}, at::kLong);
  const at::Tensor whole = model->forward(packed).tensor();
  EXPECT_TRUE(torch::allclose(whole.slice(1, 0, 4), model->forward(alone).tensor(), 1e-5, 1e-6));
  other = packed;
  other.inputs = torch::tensor({{9, 8, 7, 6, 5, 6}}, at::kLong);
  EXPECT_TRUE(torch::allclose(whole.slice(1, 4), model->forward(other).tensor().slice(1, 4), 1e-5, 1e-6));
  EXPECT_FALSE(torch::allclose(whole.slice(1, 4), model->forward(all).tensor().slice(1, 4), 1e-5, 1e-6));
}

// Product and bias must be one operation, F.linear, at each place: with two, bfloat16 rounds in between.
TEST(Gpt, HasTheBitsOfTorchsFunctionsInBfloat16) {
  torch::manual_seed(7);
  GptOptions options = Small();
  options.layers = 1;
  const auto model = MakeGpt(options);
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& param : model->parameters()) param.normal_(0, 0.5);
  const Batch batch = Tokens(torch::arange(3 * 8, at::kLong).remainder(11).view({3, 8}));
  const AutocastScope autocast(Precision::kAmpBf16, at::kCPU);
  const auto of = [params = model->named_parameters()](const std::string& name) {
    return params["transformer." + name];
  };
  const auto linear = [&](const std::string& name, const at::Tensor& x) {
    return at::linear(x, of("blocks.0." + name + ".weight"), of("blocks.0." + name + ".bias"));
  };
  const auto norm = [&](const std::string& name, const at::Tensor& x) {
    return at::layer_norm(x, {16}, of(name + ".weight"), of(name + ".bias"));
  };
  at::Tensor x = at::embedding(of("wte.weight"), batch.inputs) + of("wpe.weight");
  const auto qkv =
      linear("attn.qkv", norm("blocks.0.ln_1", x)).view({3, 8, 3, 2, 8}).permute({2, 0, 3, 1, 4}).unbind(0);
  const at::Tensor y = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, /*is_causal=*/true);
  x = x + linear("attn.proj", y.transpose(1, 2).reshape({3, 8, 16}));
  x = x + linear("mlp.proj", at::gelu(linear("mlp.fc", norm("blocks.0.ln_2", x)), "tanh"));
  const at::Tensor expected = at::linear(norm("ln_f", x), of("wte.weight")), ours = model->forward(batch);
  EXPECT_EQ(ours.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(ours.equal(expected)) << (ours - expected).abs().max();
}

TEST(Gpt, StartsAsGpt2) {
  GptOptions options = Small();
  options.width = 64;
  torch::manual_seed(5);
  const auto model = MakeGpt(options);
  const auto params = model->named_parameters();
  EXPECT_NEAR(params["transformer.blocks.0.attn.qkv.weight"].std().item<double>(), 0.02, 0.001);
  EXPECT_NEAR(params["transformer.blocks.0.mlp.proj.weight"].std().item<double>(), 0.01, 0.0005);  // 0.02 / sqrt(4)
  EXPECT_NEAR(params["transformer.blocks.1.attn.proj.weight"].std().item<double>(), 0.01, 0.0005);
  EXPECT_EQ(params["transformer.blocks.0.mlp.fc.bias"].abs().max().item<double>(), 0);
  EXPECT_EQ(params["transformer.ln_f.weight"].mean().item<double>(), 1);
  torch::manual_seed(5);
  const auto same = MakeGpt(options);
  for (const auto& item : params) EXPECT_TRUE(torch::equal(item.value(), same->named_parameters()[item.key()]));
  const Batch batch = Tokens(torch::randint(11, {4, 8}, torch::kInt64));
  EXPECT_NEAR(model->loss(model->forward(batch), batch).total.item<double>(), std::log(11.0), 0.2);
}

TEST(Gpt, SeesThePastOnly) {
  torch::manual_seed(6);
  const auto model = MakeGpt(Small());
  const at::Tensor tokens = torch::randint(11, {2, 8}, torch::kInt64);
  at::Tensor changed = tokens.clone();
  changed.slice(1, 5, 8).fill_(3);
  const at::Tensor a = model->forward(Tokens(tokens)), b = model->forward(Tokens(changed));
  EXPECT_EQ(a.sizes(), (std::vector<int64_t>{2, 8, 11}));
  EXPECT_TRUE(torch::allclose(a.slice(1, 0, 5), b.slice(1, 0, 5), 1e-5, 1e-6));
  EXPECT_FALSE(torch::allclose(a.slice(1, 5, 8), b.slice(1, 5, 8), 1e-3, 1e-3));
  EXPECT_TRUE(torch::allclose(model->forward(Tokens(tokens.slice(1, 0, 3))), a.slice(1, 0, 3), 1e-5, 1e-6));
}

TEST(Gpt, LearnsASequenceByHeart) {
  torch::manual_seed(7);
  const auto model = MakeGpt(Small());
  const Batch batch = Tokens(torch::arange(8, torch::kInt64).unsqueeze(0));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    model->loss(model->forward(batch), batch).total.backward();
    optimizer.step();
  }
  const MetricList metrics = model->metrics(/*is_train=*/false);
  for (const auto& metric : metrics) metric->Update(model->eval_forward(batch), batch);
  EXPECT_LT(metrics[0]->Compute(), 0.1);
  EXPECT_NEAR(metrics[1]->Compute(), std::exp(metrics[0]->Compute()), 1e-9);
}

TEST(Gpt, DropsInTrainingOnly) {
  GptOptions options = Small();
  options.dropout = 0.5;
  const auto model = MakeGpt(options);
  const Batch batch = Tokens(torch::zeros({1, 8}, torch::kInt64));
  EXPECT_FALSE(torch::equal(model->forward(batch), model->forward(batch)));
  model->eval();
  EXPECT_TRUE(torch::equal(model->forward(batch), model->forward(batch)));
}

TEST(Gpt, RefusesBadOptionsAndLongInputs) {
  GptOptions options = Small();
  options.heads = 3;
  EXPECT_THROW(MakeGpt(options), c10::ValueError);
  options = Small();
  options.dropout = 1;
  EXPECT_THROW(MakeGpt(options), c10::ValueError);
  EXPECT_THROW(MakeGpt(Small())->forward(Tokens(torch::zeros({1, 9}, torch::kInt64))), c10::ValueError);
}

}  // namespace
}  // namespace composer

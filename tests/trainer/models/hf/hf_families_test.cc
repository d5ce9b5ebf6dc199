// Each family computes what transformers computes with the same folder: outputs, loss, all gradients, generated tokens;
// the same when its construction is deferred.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>

#include "tests/trainer/models/hf/hf_golden.h"
#include "trainer/init/construct_model.h"
#include "trainer/models/attention_cache.h"
#include "trainer/models/causal_decoder.h"
#include "trainer/models/language_model.h"

namespace composer {
namespace {

class Family : public testing::TestWithParam<const char*> {};

// llama_dynamic's rows are longer than its table.
std::shared_ptr<Model> Loaded(const std::string& name) {
  HfTaskOptions task;
  if (name == "llama_dynamic") task.max_seq_len = 16;
  return LoadHfModel({.path = GoldenFolder(name), .task = task});
}

// Keys in the cache keep the angles of the shorter row that they were computed in.
bool AnglesFollowTheLength(const std::string& name) { return name == "llama_dynamic" || name == "llama_longrope"; }

// A gradient that is zero but for rounding (of the keys' bias, which softmax does not see) has no relative difference.
void ExpectGradients(const Model& model, const HfGolden& golden) {
  double largest = 0;
  size_t expected = 0;
  for (const auto& [key, tensor] : golden.tensors) {
    if (!key.starts_with("grad/")) continue;
    ++expected;
    largest = std::max(largest, tensor.norm().item<double>());
  }
  const auto params = model.named_parameters();
  EXPECT_EQ(params.size(), expected);
  for (const auto& item : params) {
    ASSERT_TRUE(golden.tensors.contains("grad/" + item.key())) << item.key();
    const at::Tensor& grad = golden.tensors.at("grad/" + item.key());
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    if (grad.norm().item<double>() < 1e-6 * largest) {
      EXPECT_LT(item.value().grad().norm().item<double>(), 2e-6 * largest) << item.key();
    } else {
      EXPECT_LE(RelativeDifference(item.value().grad(), grad), 1e-4) << item.key();
    }
  }
}

TEST_P(Family, HasTransformersOutputsLossAndGradients) {
  HfGolden golden(GetParam());
  const auto model = Loaded(GetParam());
  const Outputs outputs = model->forward(golden.batch);
  at::Tensor loss;
  if (golden.batch.targets.defined()) {
    EXPECT_LE(RelativeDifference(outputs.tensor(), golden.tensors["logits"]), 1e-5);
    loss = model->loss(outputs, golden.batch).total;
  } else {
    for (const char* key : {"outputs", "pooler_output"})
      EXPECT_LE(RelativeDifference(outputs[key], golden.tensors[key]), 1e-5) << key;
    loss = outputs["outputs"].square().mean() + outputs["pooler_output"].square().mean();
  }
  EXPECT_LE(RelativeDifference(loss, golden.tensors["loss"]), 1e-5);
  loss.backward();
  ExpectGradients(*model, golden);
  EXPECT_GT(model->flops_per_sample(), 0);
}

// A row with documents of 4 and 3 tokens.
Batch TwoDocuments() {
  Batch batch;
  batch.inputs = torch::tensor({3, 5, 7, 2, 1, 4, 6}, at::kLong).unsqueeze(0);
  batch.num_samples = 1;
  batch.extra["sequence_id"] = torch::tensor({0, 0, 0, 0, 1, 1, 1}, at::kLong).unsqueeze(0);
  return batch;
}

class Decoder : public testing::TestWithParam<const char*> {};

TEST_P(Decoder, KeepsAttentionWithinDocuments) {
  const torch::NoGradGuard no_grad;
  const auto model = Loaded(GetParam());
  model->eval();
  const auto logits = [&](const Batch& batch) { return model->forward(batch).tensor(); };
  Batch packed = TwoDocuments(), first = packed, other = TwoDocuments(), seen = packed, padded = packed;
  const at::Tensor whole = logits(packed);
  first.inputs = packed.inputs.slice(1, 0, 4);
  first.extra.clear();
  EXPECT_LE(RelativeDifference(whole.slice(1, 0, 4), logits(first)), 1e-5);
  other.inputs.slice(1, 0, 4).add_(1);
  EXPECT_LE(RelativeDifference(logits(other).slice(1, 4), whole.slice(1, 4)), 1e-5) << "the other document changed";
  if (std::string(GetParam()) != "gpt2") {  // its positions count through the row
    Batch second = first;
    second.inputs = packed.inputs.slice(1, 4);
    EXPECT_LE(RelativeDifference(whole.slice(1, 4), logits(second)), 1e-5);
  }
  seen.extra.clear();
  EXPECT_GT(RelativeDifference(logits(seen).slice(1, 4), whole.slice(1, 4)), 1e-4) << "without sequence_id all is seen";
  padded.extra["attention_mask"] = torch::tensor({1, 1, 1, 1, 1, 1, 0}, at::kLong).unsqueeze(0);
  EXPECT_LE(RelativeDifference(logits(padded).slice(1, 0, 6), whole.slice(1, 0, 6)), 1e-5);
  packed.extra["sequence_id"] = torch::zeros({1, 3}, at::kLong);
  EXPECT_THROW(logits(packed), c10::ValueError);
}

INSTANTIATE_TEST_SUITE_P(Models, Decoder,
                         testing::Values("gpt2", "llama", "mistral", "mistral_window", "mixtral", "mpt", "qwen2",
                                         "qwen2_window", "qwen3"));

TEST_P(Family, HasTheSameLossInChunksOfTokens) {
  HfGolden golden(GetParam());
  if (!golden.tensors.contains("generated")) GTEST_SKIP() << "no decoder";
  for (const int64_t chunk : {3, 1 << 20}) {
    const auto model = Loaded(GetParam());
    dynamic_cast<LanguageModel&>(*model).SetLossChunk(chunk);
    const Outputs outputs = model->forward(golden.batch);
    EXPECT_EQ(outputs->sizes(), golden.batch.targets.sizes());
    const at::Tensor loss = model->loss(outputs, golden.batch).total;
    EXPECT_LE(RelativeDifference(loss, golden.tensors["loss"]), 1e-5);
    loss.backward();
    ExpectGradients(*model, golden);
  }
}

TEST_P(Family, HasTheSameValuesWhenItsConstructionIsDeferred) {
  const auto whole = Loaded(GetParam());
  const ConstructedModel made = ConstructModel([&] { return Loaded(GetParam()); }, 5);
  ASSERT_NE(made.init, nullptr) << made.whole_because;
  const auto params = whole->named_parameters();
  for (const auto& item : made.model->named_parameters()) {
    EXPECT_TRUE(item.value().is_meta()) << item.key();
    EXPECT_TRUE(made.init->Values(item.value()).equal(params[item.key()])) << item.key();
  }
  const ConstructedModel other =
      ConstructModel([&] { return LoadHfModel({.path = GoldenFolder(GetParam()), .pretrained = false}); }, 5);
  EXPECT_NE(other.init->Fingerprint(), made.init->Fingerprint());
}

TEST_P(Family, GeneratesTransformersTokens) {
  HfGolden golden(GetParam());
  if (!golden.tensors.contains("generated")) GTEST_SKIP() << "no decoder";
  const torch::NoGradGuard no_grad;
  const auto model = Loaded(GetParam());
  model->eval();
  auto& decoder = dynamic_cast<CausalDecoder&>(*model);
  const at::Tensor expected = golden.tensors["generated"];
  for (const bool cached : {true, false}) {
    if (!cached && AnglesFollowTheLength(GetParam())) continue;
    const auto cache = cached ? decoder.NewCache(2, 12) : nullptr;
    at::Tensor all = golden.batch.inputs.slice(1, 0, 5), next = all;
    for (int64_t place = 5; place < 11; ++place) {
      const std::vector<int64_t> lengths(2, place);
      next = decoder.NextLogits(cached ? next : all, lengths, cache.get()).argmax(-1, /*keepdim=*/true);
      all = torch::cat({all, next}, 1);
    }
    EXPECT_TRUE(all.slice(1, 5).equal(expected)) << cached << all << expected;
  }
}

// The rows of a batch are of different lengths; the shorter one's logits are those it has alone.
TEST_P(Family, DoesNotSeePadding) {
  HfGolden golden(GetParam());
  if (golden.batch.inputs.is_floating_point()) GTEST_SKIP() << "pictures";
  if (std::string(GetParam()) == "llama_dynamic") GTEST_SKIP() << "angles follow the longest row";
  const torch::NoGradGuard no_grad;
  const auto model = Loaded(GetParam());
  Batch batch = golden.batch, alone = golden.batch.Slice(1, 2);
  batch.extra["attention_mask"] = torch::ones_like(batch.inputs);
  batch.extra["attention_mask"][1].slice(0, 6).zero_();
  alone.inputs = alone.inputs.slice(1, 0, 6);
  for (auto& [name, tensor] : alone.extra) tensor = tensor.slice(1, 0, 6);
  alone.extra.erase("attention_mask");
  at::Tensor both = model->forward(batch).tensor()[1];
  if (both.dim() == 2) both = both.slice(0, 0, 6);
  EXPECT_LE(RelativeDifference(both, model->forward(alone).tensor()[0]), 1e-5);
}

// Rows of 7 and 2 tokens, longer and shorter than the windows, which change places once.
TEST_P(Decoder, TheCacheGivesTheLogitsOfAllTokens) {
  const torch::NoGradGuard no_grad;
  const auto model = Loaded(GetParam());
  model->eval();
  auto& decoder = dynamic_cast<CausalDecoder&>(*model);
  const auto cache = decoder.NewCache(2, 16);
  at::Tensor all = (torch::arange(32, at::kLong).square() * 3 + 1).remainder(61).view({2, 16});
  std::vector<int64_t> lengths = {7, 2};
  at::Tensor next = all.slice(1, 0, 7);
  for (int step = 0; step < 8; ++step) {
    const at::Tensor expected = decoder.NextLogits(all, lengths, nullptr);
    EXPECT_LE(RelativeDifference(decoder.NextLogits(next, lengths, cache.get()), expected), 1e-5) << step;
    if (step == 3) {
      cache->Reorder({1, 0});
      all = all.flip(0);
      std::swap(lengths[0], lengths[1]);
    }
    for (int64_t& length : lengths) ++length;
    next = torch::stack({all[0].slice(0, lengths[0] - 1, lengths[0]), all[1].slice(0, lengths[1] - 1, lengths[1])});
  }
}

TEST(Windows, AreInMemoryAndOperations) {
  const auto flops = [](const std::string& name, const std::string& change) {
    return LoadHfModel({.path = GoldenFolder(name), .config = change, .pretrained = false})->flops_per_sample();
  };
  // 16 tokens, 2 layers, width 16; 12 operations for each token that one sees.
  const double seen = 16 * 12 * 16;
  const double whole = flops("mistral_window", R"({"sliding_window": 16})");
  EXPECT_DOUBLE_EQ(whole - flops("mistral_window", "{}"), seen * 2 * (16 - 3));
  EXPECT_DOUBLE_EQ(whole - flops("qwen2_window", "{}"), seen * (16 - 4)) << "in the second layer alone";
  AttentionCache cache({.layers = 2, .heads = 1, .head_width = 4, .windows = {3, 0}}, 2, 100);
  const at::Tensor x = torch::zeros({2, 5, 4});
  cache.BeginPass(x, 5, {5, 4});
  EXPECT_EQ(cache.Inputs(x, 0)[1].storage().nbytes(), 2 * 3 * 4 * sizeof(float));
  EXPECT_EQ(cache.Inputs(x, 1)[1].storage().nbytes(), 2 * 100 * 4 * sizeof(float));
  EXPECT_THROW(cache.BeginPass(x, 1, {6, 3}), c10::Error) << "the second row cannot go back";
}

INSTANTIATE_TEST_SUITE_P(Hf, Family,
                         testing::Values("bert", "bert_regression", "bert_mlm", "bert_tokens", "bert_features",
                                         "clip_text", "roberta", "roberta_mlm", "gpt2", "llama", "llama_linear",
                                         "mistral", "mistral_window", "qwen2", "qwen2_window", "qwen3", "mixtral",
                                         "mpt", "vit", "timm_vit", "llama_dynamic", "llama_longrope"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace composer

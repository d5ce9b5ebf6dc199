// Tests the convolution that whitens images and the embeddings of values by formula, and what they refuse.
// library_test.cc runs them on every mesh.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/algorithms/surgery/alibi.h"
#include "trainer/algorithms/surgery/qk_norm.h"
#include "trainer/algorithms/surgery/value_embeddings.h"
#include "trainer/algorithms/surgery/whitening_conv.h"
#include "trainer/core/state.h"
#include "trainer/init/change_model.h"
#include "trainer/models/causal_decoder.h"
#include "trainer/models/text/llama.h"
#include "trainer/optim/model_params.h"
#include "trainer/optim/muon_groups.h"

namespace composer {
namespace {

using testing::HasSubstr;

std::shared_ptr<Model> After(Algorithm&& algorithm, std::shared_ptr<Model> model) {
  const absl::Status status = algorithm.ChangeModel(*model, ModelContext{Precision::kFp32});
  EXPECT_TRUE(status.ok()) << status;
  return model;
}

std::string WhyNot(Algorithm&& algorithm, std::shared_ptr<Model> model, int tensor_parallel_degree = 1) {
  return std::string(
      ChangeModel(model, {&algorithm}, ModelContext{Precision::kFp32}, tensor_parallel_degree).message());
}

std::shared_ptr<Model> SmallResNet() {
  return MakeResNetSmall({.classes = 4, .widths = {16, 16}, .stem_stride = 1, .image_size = 8});
}

// Neighbouring pixels are alike, as in photographs.
at::Tensor SmoothImages(int64_t channels) {
  const at::Tensor noise = DrawTensor(11, {6, channels, 9, 9});
  return noise.slice(2, 0, 8).slice(3, 0, 8) + noise.slice(2, 1, 9).slice(3, 0, 8) +
         0.5 * noise.slice(2, 0, 8).slice(3, 1, 9) + 0.3;
}

TEST(WhiteningConv, CovarianceIsTheFormulas) {
  const at::Tensor image = torch::tensor({1.0F, 2.0F, 4.0F, 7.0F}).view({1, 1, 2, 2});
  EXPECT_TRUE(torch::allclose(PatchCovariance(image, 2), torch::zeros({4, 4}, at::kDouble)));
  EXPECT_NEAR(PatchCovariance(image, 1).item<double>(), (1 + 4 + 16 + 49) / 4.0 - 3.5 * 3.5, 1e-12);
  EXPECT_THAT([&] { PatchCovariance(image, 3); },
              testing::ThrowsMessage<c10::ValueError>(HasSubstr("whitening_conv: it takes images [B, C, H, W]")));
}

TEST(WhiteningConv, FiltersMakePatchesOfVarianceOneInBothSigns) {
  for (const int64_t channels : {1, 3}) {
    const at::Tensor images = SmoothImages(channels);
    const int64_t n = channels * 4;
    const at::Tensor filters = WhiteningFilters(PatchCovariance(images, 2), channels, 1e-12);
    ASSERT_EQ(filters.sizes().vec(), (std::vector<int64_t>{2 * n, channels, 2, 2}));
    EXPECT_TRUE(filters.slice(0, 0, n).equal(-filters.slice(0, n)));
    const at::Tensor outputs = at::conv2d(images, filters).transpose(0, 1).flatten(1).slice(0, 0, n).to(at::kDouble);
    EXPECT_TRUE(torch::allclose(torch::cov(outputs, /*correction=*/0), torch::eye(n, at::kDouble), 1e-4, 1e-4));
    const at::Tensor norms = filters.slice(0, 0, n).flatten(1).norm(2, 1);
    EXPECT_TRUE(norms.slice(0, 1).ge(norms.slice(0, 0, n - 1)).all().item<bool>()) << "largest variance first";
    EXPECT_TRUE(filters.slice(0, 0, n).flatten(1).amax(1).gt(0).all().item<bool>());
  }
}

TEST(WhiteningConv, KeepsTheSizeOfImages) {
  for (const int64_t kernel : {1, 2, 3}) {
    WhiteningLayer layer(2, kernel);
    const at::Tensor images = SmoothImages(2);
    const torch::NoGradGuard no_grad;
    at::Tensor(layer.weight()).copy_(WhiteningFilters(PatchCovariance(images, kernel), 2, 1e-3));
    const at::Tensor outputs = layer.forward(images), inner = at::gelu(at::conv2d(images, layer.weight()));
    ASSERT_EQ(outputs.sizes().vec(), (std::vector<int64_t>{6, 4 * kernel * kernel, 8, 8}));
    const int64_t first = (kernel - 1) / 2, count = 8 - kernel + 1;
    EXPECT_TRUE(torch::allclose(outputs.narrow(2, first, count).narrow(3, first, count), inner, 1e-4, 1e-5));
  }
}

TEST(WhiteningConv, TakesItsFiltersFromTheDataAndKeepsThem) {
  const auto filters = [](int ranks, bool sharded) {
    at::Tensor first;
    const auto results = TrainOnRanks(ranks, [&](int rank) {
      TrainerOptions options = ImageRun("", 3);
      if (sharded) options.fsdp.emplace();
      options.algorithms.push_back(std::make_unique<WhiteningConv>(WhiteningConvOptions{.samples = 17}));
      AddCallback(options, {Event::kEpochStart, Event::kFitEnd}, [&first, rank](State& state) {
        const at::Tensor now = *state.model->named_buffers().find("conv1.whiten.weight");
        if (rank != 0) return;
        if (first.defined()) EXPECT_TRUE(now.equal(first)) << "they are not trained";
        first = now.clone();
      });
      return options;
    });
    EXPECT_TRUE(results[0].status.ok()) << results[0].status;
    return first;
  };
  const at::Tensor alone = filters(1, false);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 17; ++i) ids.push_back(i * 40 / 17);
  const at::Tensor images = ImageRun("", 1).train.dataset->Load(ids).inputs;
  EXPECT_TRUE(torch::allclose(alone, WhiteningFilters(PatchCovariance(images, 2), 1, 5e-4), 1e-4, 1e-5));
  EXPECT_TRUE(filters(2, false).equal(alone));
  EXPECT_TRUE(filters(2, true).equal(alone));
}

TEST(WhiteningConv, NamesWhatItCannotTake) {
  EXPECT_THAT(WhyNot(WhiteningConv(), MakeTestModel()), HasSubstr("whitening_conv: layer: the first is to be one"));
  EXPECT_THAT(WhyNot(WhiteningConv({.layer = "*.conv1"}), SmallResNet()),
              HasSubstr("layer: *.conv1 is to be one convolution (Conv2d); "));
  EXPECT_THAT(WhyNot(WhiteningConv({.layer = "none"}), SmallResNet()), HasSubstr("has conv1, layer1.0.conv1"));
  EXPECT_THAT(WhyNot(WhiteningConv(), After(WhiteningConv(), SmallResNet())), HasSubstr("whitened already"));
  EXPECT_THAT(WhyNot(WhiteningConv(), SmallResNet(), 2), HasSubstr("WhiteningConv changes layer conv1"));
  const auto refusal = [](std::shared_ptr<const Dataset> data) {
    TrainerOptions options = ImageRun("", 1);
    options.train.dataset = std::move(data);
    options.algorithms.push_back(std::make_unique<WhiteningConv>());
    return std::string(Train(std::move(options)).status.message());
  };
  const at::Tensor targets = torch::zeros({8}, at::kLong);
  EXPECT_THAT(refusal(MakeTensorRows(torch::zeros({8, 1, 8, 8}, at::kByte), targets)),
              HasSubstr("numbers with a fraction; add the transform to_float"));
  EXPECT_THAT(refusal(MakeTensorRows(torch::zeros({8, 3, 8, 8}), targets)), HasSubstr("it needs images [B, 1, H, W]"));
}

TEST(ValueEmbeddings, AddARowForEachToken) {
  const at::Tensor v = DrawTensor(5, {2, 3, 4, 2}), table = DrawTensor(6, {7, 6});
  const at::Tensor tokens = torch::tensor({0, 6, 3, 3, 1, 2, 0, 5}, at::kLong).view({2, 4});
  const at::Tensor sum = AddValueEmbeddings(v, tokens, table, torch::tensor({0.5F, 2.0F}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t head = 0; head < 3; ++head) {
      for (int64_t t = 0; t < 4; ++t) {
        const at::Tensor row = table[tokens[b][t].item<int64_t>()].slice(0, 2 * head, 2 * head + 2);
        EXPECT_TRUE(torch::allclose(sum[b][head][t], 0.5 * v[b][head][t] + 2 * row));
      }
    }
  }
  EXPECT_EQ(AddValueEmbeddings(v.to(at::kBFloat16), tokens, table, torch::ones({2})).scalar_type(), at::kBFloat16);
  EXPECT_THAT([&] { AddValueEmbeddings(v, tokens, table.slice(1, 1), torch::ones({2})); },
              testing::ThrowsMessage<c10::ValueError>(HasSubstr("do not fit tokens [2, 4] and a table [7, 5]")));
}

Batch TokensOf(int64_t rows) {
  Batch batch;
  batch.inputs = torch::arange(rows * 8, at::kLong).remainder(13).view({rows, 8});
  batch.num_samples = rows;
  return batch;
}

void FillTables(Model& model) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) {
    if (item.key().find("value_embedding") != std::string::npos)
      at::Tensor(item.value()).copy_(DrawTensor(9, item.value().sizes()));
  }
}

TEST(ValueEmbeddings, BeginAsTheModelWasAndGoWithACacheAlibiAndQkNorm) {
  const FirstWeights first(true);
  const torch::NoGradGuard no_grad;
  const at::Tensor plain = first.In(MakeGpt(SmallGpt(true)))->forward(TokensOf(2));
  EXPECT_TRUE(After(ValueEmbeddings(), first.In(MakeGpt(SmallGpt(true))))->forward(TokensOf(2))->equal(plain));
  at::Tensor last_logits;
  for (const bool first_of_all : {false, true}) {
    auto model = first.In(MakeGpt(SmallGpt(true)));
    if (first_of_all) model = After(ValueEmbeddings(), model);
    model = After(QkNorm(), After(Alibi(AlibiOptions{8, 1}), model));
    if (!first_of_all) model = After(ValueEmbeddings(), model);
    FillTables(*model);
    model->eval();
    const at::Tensor logits = model->forward(TokensOf(2));
    EXPECT_FALSE(torch::allclose(logits, plain, 1e-2, 1e-3));
    if (last_logits.defined()) EXPECT_TRUE(logits.equal(last_logits)) << "the order makes a difference";
    last_logits = logits;
    auto& decoder = dynamic_cast<CausalDecoder&>(*model);
    const auto cache = decoder.NewCache(2, 8);
    const at::Tensor tokens = TokensOf(2).inputs;
    decoder.NextLogits(tokens.slice(1, 0, 6), {6, 6}, cache.get());
    decoder.NextLogits(tokens.slice(1, 6, 7), {7, 7}, cache.get());
    const at::Tensor next = decoder.NextLogits(tokens.slice(1, 7, 8), {8, 8}, cache.get());
    EXPECT_TRUE(torch::allclose(next, logits.select(1, 7), 1e-4, 1e-5));
  }
}

std::shared_ptr<Model> SmallLlama(int64_t layers) {
  return MakeLlama({.vocab_size = 13,
                    .hidden_size = 16,
                    .intermediate_size = 24,
                    .num_hidden_layers = layers,
                    .num_attention_heads = 4,
                    .num_key_value_heads = 2,
                    .head_dim = 4,
                    .context = 8});
}

TEST(ValueEmbeddings, AreOfTheFirstAndLastLayersAsWideAsTheValues) {
  const auto model = After(ValueEmbeddings(1), SmallLlama(4));
  std::vector<std::string> tables;
  for (const auto& item : model->named_parameters()) {
    if (item.key().find("value_embedding") == std::string::npos) continue;
    EXPECT_EQ(item.value().sizes().vec(), (std::vector<int64_t>{13, 8}));
    tables.push_back(item.key());
  }
  EXPECT_EQ(tables, (std::vector<std::string>{"model.layers.0.self_attn.core.value_embedding.weight",
                                              "model.layers.3.self_attn.core.value_embedding.weight"}));
  const auto groups = MakeMuonGroups(NamedParametersOf(*model), MuonGroupOptions());
  ASSERT_TRUE(groups.ok()) << groups.status();
  for (const ParamGroup& group : groups->matrices) EXPECT_THAT(group.names, testing::Not(testing::Contains(tables[0])));
  FillTables(*model);
  model->forward(TokensOf(1))->sum().backward();
  for (const auto& item : model->named_parameters()) EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

TEST(ValueEmbeddings, NameWhatTheyCannotTake) {
  EXPECT_THAT(WhyNot(ValueEmbeddings(), MakeTestModel()), HasSubstr("has 0 and 0"));
  EXPECT_THAT(WhyNot(ValueEmbeddings(), After(ValueEmbeddings(), MakeGpt(SmallGpt(true)))),
              HasSubstr("transformer.blocks.0.attn.core has them already"));
  EXPECT_THAT(WhyNot(ValueEmbeddings(), MakeGpt(SmallGpt(true)), 2), HasSubstr("ValueEmbeddings changes layer "));
}

}  // namespace
}  // namespace composer

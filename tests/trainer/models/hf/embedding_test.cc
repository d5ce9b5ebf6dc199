// Texts as vectors: embeddings, loss and gradients of transformers' models with sentence-transformers' pooling and
// loss, in one process and on ranks that compare their texts with each other's.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/support/spawn_ranks.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/models/hf/hf_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/core/dataset.h"
#include "trainer/metrics/recall_at_k.h"
#include "trainer/models/text/embedding_model.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct EmbeddingCase {
  const char* model;
  const char* name;
  Pooling pooling;
};
constexpr EmbeddingCase kEmbeddingCases[] = {{"bert_features", "mean", Pooling::kMean},
                                             {"bert_features", "cls", Pooling::kCls},
                                             {"llama", "last", Pooling::kLast},
                                             {"llama", "mean", Pooling::kMean}};

struct EmbeddingGolden {
  explicit EmbeddingGolden(const std::string& model) {
    const auto read = ReadWeights(GoldenFolder(model) + "/embedding.safetensors", "");
    EXPECT_TRUE(read.ok()) << read.status();
    for (const auto& [key, tensor] : read->tensors) tensors[key] = tensor;
    batch.inputs = tensors.at("inputs");
    batch.num_samples = batch.inputs.size(0);
    for (const char* key : {"attention_mask", "positives", "positives_mask", "negatives", "negatives_mask"})
      batch.extra[key] = tensors.at(key);
  }
  std::map<std::string, at::Tensor> tensors;
  Batch batch;
};

std::shared_ptr<Model> LoadEmbedding(const EmbeddingCase& c, bool gathers = true) {
  HfModelOptions options{.path = GoldenFolder(c.model)};
  options.task.has_task = true;
  options.task.loss.task = TextTask::kEmbedding;
  options.task.embedding.pooling = c.pooling;
  options.task.embedding.gather_in_batch_negatives = gathers;
  return LoadHfModel(options);
}

// The names of the file's gradients are the bare model's.
at::Tensor GradientIn(const EmbeddingGolden& golden, const EmbeddingCase& c, const std::string& name) {
  for (const char* prefix : {"", "model."}) {
    if (!name.starts_with(prefix)) continue;
    const auto found = golden.tensors.find(absl::StrCat(c.name, "/grad/", name.substr(strlen(prefix))));
    if (found != golden.tensors.end()) return found->second;
  }
  ADD_FAILURE() << name;
  return {};
}

void ExpectGradients(const std::vector<std::pair<std::string, at::Tensor>>& gradients, const EmbeddingGolden& golden,
                     const EmbeddingCase& c) {
  for (const auto& [name, gradient] : gradients) {
    const at::Tensor expected = GradientIn(golden, c, name);
    // The keys' biases have no effect: their gradient is rounding.
    if (expected.norm().item<double>() < 1e-5) continue;
    EXPECT_LE(RelativeDifference(gradient, expected), 1e-4) << name;
  }
}

class Embeddings : public testing::TestWithParam<EmbeddingCase> {};

TEST_P(Embeddings, AreTransformers) {
  const EmbeddingGolden golden(GetParam().model);
  const auto at = [&](const std::string& name) { return golden.tensors.at(absl::StrCat(GetParam().name, "/", name)); };
  const auto model = LoadEmbedding(GetParam());
  const Outputs outputs = model->forward(golden.batch);
  EXPECT_LE(RelativeDifference(outputs["outputs"], at("inputs")), 1e-5);
  EXPECT_LE(RelativeDifference(outputs["positives"], at("positives")), 1e-5);
  EXPECT_LE(RelativeDifference(outputs["negatives"], at("negatives")), 1e-5);
  Batch alone = golden.batch;
  for (const char* key : {"positives", "positives_mask", "negatives", "negatives_mask"}) alone.extra.erase(key);
  EXPECT_LE(RelativeDifference(model->forward(alone), at("inputs")), 1e-5);
  const Loss loss = model->loss(outputs, golden.batch);
  EXPECT_LE(RelativeDifference(loss.total, at("loss")), 1e-5);
  loss.total.backward();
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  for (const auto& param : model->named_parameters()) gradients.emplace_back(param.key(), param.value().grad());
  ExpectGradients(gradients, golden, GetParam());
}

// Three ranks with two samples each have together the loss and the gradients of one process with six.
TEST_P(Embeddings, OfThreeRanksAreThoseOfOne) {
  constexpr int kRanks = 3;
  const EmbeddingGolden golden(GetParam().model);
  std::vector<std::shared_ptr<Model>> models;
  for (int rank = 0; rank < kRanks; ++rank) models.push_back(LoadEmbedding(GetParam()));
  std::vector<double> losses(kRanks);
  ThreadsExchange exchange(kRanks);
  SpawnRanks(kRanks, [&](int rank) {
    ThreadsCommunicator communicator(exchange, rank);
    Model& model = *models[static_cast<size_t>(rank)];
    dynamic_cast<AcrossRanks&>(model).data_ranks = &communicator;
    const Batch own = golden.batch.Slice(2 * rank, 2 * rank + 2);
    const Loss loss = model.loss(model.forward(own), own);
    losses[static_cast<size_t>(rank)] = loss.total.item<double>();
    (loss.total / kRanks).backward();
  });
  EXPECT_NEAR((losses[0] + losses[1] + losses[2]) / kRanks,
              golden.tensors.at(absl::StrCat(GetParam().name, "/loss")).item<double>(), 1e-4);
  std::vector<std::pair<std::string, at::Tensor>> gradients;
  for (const auto& param : models[0]->named_parameters()) {
    at::Tensor sum = param.value().grad();
    for (int rank = 1; rank < kRanks; ++rank)
      sum = sum + models[static_cast<size_t>(rank)]->named_parameters()[param.key()].grad();
    gradients.emplace_back(param.key(), sum);
  }
  ExpectGradients(gradients, golden, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Hf, Embeddings, testing::ValuesIn(kEmbeddingCases),
                         [](const auto& info) { return absl::StrCat(info.param.model, "_", info.param.name); });

class PairsDataset final : public Dataset {
 public:
  explicit PairsDataset(Batch whole) : whole_(std::move(whole)) {}
  int64_t size() const override { return whole_.num_samples; }
  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch = whole_.Select({indices.begin(), indices.end()});
    batch.sample_ids.assign(indices.begin(), indices.end());
    return batch;
  }

 private:
  const Batch whole_;
};

TrainerOptions EmbeddingRun(const EmbeddingCase& c, bool gathers = true) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [c, gathers] { return LoadEmbedding(c, gathers); };
  options.train.dataset = std::make_shared<PairsDataset>(EmbeddingGolden(c.model).batch);
  options.train.global_train_batch_size = 6;
  options.train.drop_last = true;
  options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1e-3); };
  options.max_duration = Time::Batches(4);
  return options;
}

TEST(EmbeddingRuns, OnTwoRanksFollowOneRank) {
  for (const EmbeddingCase& c : {kEmbeddingCases[0], kEmbeddingCases[2]}) {
    SCOPED_TRACE(c.model);
    const RunResult one = Train(EmbeddingRun(c));
    ASSERT_TRUE(one.status.ok()) << one.status;
    EXPECT_LT(one.losses.back(), one.losses.front());
    for (const bool sharded : {false, true}) {
      const auto results = TrainOnRanks(2, [&](int) {
        TrainerOptions options = EmbeddingRun(c);
        if (sharded) options.fsdp.emplace().strategy = ShardingStrategy::kFullShard;
        options.activations.checkpoint.every = sharded ? 1 : 0;
        return options;
      });
      for (const RunResult& result : results) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        ASSERT_EQ(result.losses.size(), one.losses.size());
        for (size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(result.losses[i] / one.losses[i], 1, 1e-4) << i;
        EXPECT_LE(RelativeError(result, one), 5e-4);
      }
    }
  }
}

TEST(EmbeddingRuns, WithTensorParallelismFollowOneRank) {
  const RunResult one = Train(EmbeddingRun(kEmbeddingCases[0]));
  const auto results = TrainOnRanks(2, [&](int) {
    TrainerOptions options = EmbeddingRun(kEmbeddingCases[0]);
    options.tensor_parallel_degree = 2;
    options.layer_plan = *HfLayerPlan("bert");
    return options;
  });
  for (const RunResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    for (size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(result.losses[i] / one.losses[i], 1, 1e-4) << i;
  }
}

TEST(EmbeddingRuns, WithoutGatheringHaveFewerTextsToTellApart) {
  const RunResult one = Train(EmbeddingRun(kEmbeddingCases[0]));
  const auto results = TrainOnRanks(2, [&](int) { return EmbeddingRun(kEmbeddingCases[0], /*gathers=*/false); });
  ASSERT_TRUE(results[0].status.ok()) << results[0].status;
  EXPECT_LT(results[0].losses[0], one.losses[0] - 0.1);
}

TEST(EmbeddingRuns, RefuseSharesThatDiffer) {
  const auto error = [](const std::function<void(TrainerOptions&)>& change) {
    const auto results = TrainOnRanks(2, [&](int) {
      TrainerOptions options = EmbeddingRun(kEmbeddingCases[0]);
      change(options);
      return options;
    });
    return std::string(results[0].status.message());
  };
  EXPECT_THAT(error([](TrainerOptions& options) { options.train.global_train_batch_size = 3; }),
              HasSubstr("global_train_batch_size: 3 must be a multiple of the 2 ranks"));
  EXPECT_THAT(error([](TrainerOptions& options) {
                options.train.global_train_batch_size = 4;
                options.train.drop_last = false;
              }),
              HasSubstr("train_dataloader.drop_last: it must be true"));
  EXPECT_THAT(error([](TrainerOptions& options) { options.device_train_microbatch_size = kAutoMicrobatch; }),
              HasSubstr("device_train_microbatch_size: auto"));
}

TEST(EmbeddingRuns, NameWhatABatchLacks) {
  const auto model = LoadEmbedding(kEmbeddingCases[0]);
  Batch batch = EmbeddingGolden("bert_features").batch;
  batch.extra["positives_mask"] = torch::ones({6, 2}, at::kLong);
  EXPECT_THROW(model->forward(batch), c10::ValueError);
  batch.extra.clear();
  try {
    model->loss(model->forward(batch), batch);
    FAIL();
  } catch (const c10::ValueError& refused) {
    EXPECT_THAT(refused.what(), HasSubstr("the batch has no `positives`"));
  }
}

// Scores of a text with the three positives: its own is the first, the second and the third best.
TEST(RecallAtK, CountsOwnPositivesAmongTheBest) {
  const at::Tensor positives = torch::eye(3);
  const at::Tensor texts = torch::tensor({{3.0F, 2.0F, 1.0F}, {3.0F, 2.0F, 1.0F}, {3.0F, 2.0F, 1.0F}});
  for (const auto& [k, expected] : {std::pair(1, 1.0 / 3), std::pair(2, 2.0 / 3), std::pair(3, 1.0)}) {
    const auto metric = MakeRecallAtK(k);
    EXPECT_TRUE(std::isnan(metric->Compute()));
    for (int64_t i = 0; i < 3; ++i) {
      metric->Update(
          Outputs(Outputs::Named{{"outputs", texts.narrow(0, i, 1)}, {"positives", positives.narrow(0, i, 1)}}),
          Batch());
    }
    EXPECT_DOUBLE_EQ(metric->Compute(), expected) << k;
    EXPECT_EQ(metric->name(), absl::StrCat("RecallAt", k));
  }
}

}  // namespace
}  // namespace composer

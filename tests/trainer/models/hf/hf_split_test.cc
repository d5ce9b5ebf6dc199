// Each family, split over two ranks by its plan, computes what transformers computes: outputs, loss, this rank's part
// of all gradients, generated tokens.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"
#include "tests/trainer/models/hf/hf_golden.h"
#include "trainer/algorithms/surgery/alibi.h"
#include "trainer/algorithms/surgery/qk_norm.h"
#include "trainer/models/causal_decoder.h"
#include "trainer/parallel/tensor/layer_plan.h"

namespace composer {
namespace {

class SplitFamily : public testing::TestWithParam<const char*> {
 protected:
  // Runs the function on each rank with the loaded, split model.
  static void OnTwo(
      const std::string& name, const std::function<void(Model& model, HfGolden& golden, Communicator& group)>& run,
      const std::function<void(Model& model)>& surgery = [](Model&) {}) {
    ThreadsExchange exchange(2);
    SpawnRanks(2, [&](int rank) {
      ThreadsCommunicator group(exchange, rank);
      const auto model = LoadHfModel({.path = GoldenFolder(name)});
      surgery(*model);
      SplitByPlan(*model, *HfLayerPlan(*ReadHfModelType({.path = GoldenFolder(name)})), group);
      HfGolden golden(name);
      run(*model, golden, group);
    });
  }
};

void ExpectPartsOfGradients(const Model& model, const HfGolden& golden) {
  std::map<std::string, TensorSplit> splits;
  for (const SplitParameter& each : SplitParametersOf(model)) splits[each.name] = each.split;
  EXPECT_GE(splits.size(), 4);
  double largest = 0;
  for (const auto& [key, tensor] : golden.tensors)
    if (key.starts_with("grad/")) largest = std::max(largest, tensor.norm().item<double>());
  for (const auto& item : model.named_parameters()) {
    at::Tensor expected = golden.tensors.at("grad/" + item.key());
    if (splits.contains(item.key())) expected = CutFrom(expected, splits.at(item.key()));
    const at::Tensor& grad = item.value().grad();
    ASSERT_EQ(grad.sizes(), expected.sizes()) << item.key();
    EXPECT_LE((grad - expected).norm().item<double>(), 1e-4 * std::max(expected.norm().item<double>(), 1e-2 * largest))
        << item.key();
  }
}

TEST_P(SplitFamily, HasTransformersOutputsAndGradients) {
  OnTwo(GetParam(), [](Model& model, HfGolden& golden, Communicator&) {
    const Outputs outputs = model.forward(golden.batch);
    at::Tensor loss;
    if (golden.batch.targets.defined()) {
      EXPECT_LE(RelativeDifference(outputs.tensor(), golden.tensors["logits"]), 1e-5);
      loss = model.loss(outputs, golden.batch).total;
    } else {
      EXPECT_LE(RelativeDifference(outputs["outputs"], golden.tensors["outputs"]), 1e-5);
      loss = outputs["outputs"].square().mean() + outputs["pooler_output"].square().mean();
    }
    EXPECT_LE(RelativeDifference(loss, golden.tensors["loss"]), 1e-5);
    loss.backward();
    ExpectPartsOfGradients(model, golden);
  });
}

TEST_P(SplitFamily, GeneratesTransformersTokens) {
  if (!HfGolden(GetParam()).tensors.contains("generated")) GTEST_SKIP() << "no decoder";
  OnTwo(GetParam(), [](Model& model, HfGolden& golden, Communicator&) {
    const torch::NoGradGuard no_grad;
    model.eval();
    auto& decoder = dynamic_cast<CausalDecoder&>(model);
    const auto cache = decoder.NewCache(2, 12);
    at::Tensor all = golden.batch.inputs.slice(1, 0, 5), next = all;
    for (int64_t place = 5; place < 11; ++place) {
      const std::vector<int64_t> lengths(2, place);
      next = decoder.NextLogits(next, lengths, cache.get()).argmax(-1, /*keepdim=*/true);
      all = torch::cat({all, next}, 1);
    }
    EXPECT_TRUE(all.slice(1, 5).equal(golden.tensors["generated"])) << all;
  });
}

INSTANTIATE_TEST_SUITE_P(Hf, SplitFamily,
                         testing::Values("bert", "bert_mlm", "clip_text", "gpt2", "llama", "mistral_window", "mixtral",
                                         "mpt", "qwen2_window", "qwen3", "roberta_mlm", "vit"),
                         [](const auto& info) { return std::string(info.param); });

// Biases that differ by head and norms of queries and keys, as surgery puts them in.
TEST(SplitSurgery, HasTheOutputsOfOneRank) {
  const auto surgery = [](Model& model) {
    ASSERT_TRUE(Alibi({16, 1.0}).ChangeModel(model, ModelContext{}).ok());
    ASSERT_TRUE(QkNorm().ChangeModel(model, ModelContext{}).ok());
  };
  const auto whole = LoadHfModel({.path = GoldenFolder("gpt2")});
  surgery(*whole);
  const at::Tensor expected = whole->forward(HfGolden("gpt2").batch).tensor();
  ThreadsExchange exchange(2);
  SpawnRanks(2, [&](int rank) {
    ThreadsCommunicator group(exchange, rank);
    const auto model = LoadHfModel({.path = GoldenFolder("gpt2")});
    surgery(*model);
    SplitByPlan(*model, *HfLayerPlan("gpt2"), group);
    EXPECT_LE(RelativeDifference(model->forward(HfGolden("gpt2").batch).tensor(), expected), 1e-5);
  });
}

TEST(HfPlan, AnUnknownTypeIsRefused) {
  EXPECT_THAT(std::string(HfLayerPlan("bloom").status().message()), testing::HasSubstr("`bloom` is none of"));
}

}  // namespace
}  // namespace composer

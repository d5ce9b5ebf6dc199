// Compares the weighting of microbatches and ranks with mosaicml 0.32.1, by the gradients that a step's optimizer gets
// (tests/golden/gradients.json): uneven last microbatches, masked targets, 1 and 2 ranks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/optim/decoupled_sgdw.h"

namespace composer {
namespace {

using Json = nlohmann::json;

const Json& GradientsGolden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/gradients.json").value()));
  return *golden;
}

at::Tensor Rows(const Json& values) {
  std::vector<at::Tensor> rows;
  for (const Json& row : values) rows.push_back(torch::tensor(row.get<std::vector<int64_t>>(), at::kLong));
  return torch::stack(rows);
}

// A model in which a token's embedding determines the next token.
class TokenModel final : public Model {
 public:
  TokenModel() : embedding_(11, 6), head_(6, 11) {
    register_module("embedding", embedding_);
    register_module("head", head_);
    FillParameters(*this);
  }
  Outputs forward(const Batch& batch) override { return head_(embedding_(batch.inputs)); }
  Loss loss(const Outputs& outputs, const Batch& batch) override {
    return at::cross_entropy_loss(outputs->flatten(0, 1), batch.targets.flatten(), {}, at::Reduction::Mean, -100);
  }
  MetricList metrics(bool) const override { return {}; }

 private:
  torch::nn::Embedding embedding_;
  torch::nn::Linear head_;
};

std::unique_ptr<Optimizer> MakeSgd(Model& model) {
  ParamGroup group;
  for (const auto& item : model.named_parameters()) {
    group.names.push_back(item.key());
    group.params.push_back(item.value());
  }
  group.lr = group.initial_lr = 0.5;
  return std::make_unique<DecoupledSgdwOptimizer>(std::vector<ParamGroup>{group}, SgdwOptions{});
}

TrainerOptions Options(const Json& run, std::vector<at::Tensor>* first_gradients) {
  TrainerOptions options = SmallRun();
  options.model = std::make_shared<TokenModel>();
  options.train.dataset =
      MakeTensorRows(Rows(GradientsGolden()["inputs"]), Rows(GradientsGolden()["targets"]), /*tokens_per_sample=*/5);
  options.train.shuffle = false;
  options.train.global_train_batch_size = 10;
  options.device_train_microbatch_size = run["microbatch"];
  options.accumulate_train_batch_on_tokens = run["by_tokens"];
  options.make_optimizer = MakeSgd;
  options.max_duration = Time::Epochs(1);
  AddCallback(options, {Event::kAfterTrainBatch}, [first_gradients](State& state) {
    if (!first_gradients->empty()) return;
    for (const at::Tensor& param : state.model->parameters()) first_gradients->push_back(param.grad().clone());
  });
  return options;
}

// Expects equal shapes, and a difference of at most `tolerance` times the norm of all.
void ExpectNear(const std::vector<at::Tensor>& ours, const Json& golden, double tolerance) {
  ASSERT_EQ(ours.size(), golden.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const at::Tensor expected = torch::tensor(golden[i].get<std::vector<double>>(), at::kDouble);
    ASSERT_EQ(ours[i].numel(), expected.numel());
    difference += (ours[i].flatten().to(at::kDouble) - expected).square().sum().item<double>();
    norm += expected.square().sum().item<double>();
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm));
}

void ExpectAsGolden(const Json& run) {
  SCOPED_TRACE(absl::StrCat("world ", run["world"].dump(), ", microbatch ", run["microbatch"].dump(), ", by tokens ",
                            run["by_tokens"].dump()));
  const int world = run["world"];
  std::vector<std::vector<at::Tensor>> gradients(static_cast<size_t>(world));
  const auto results =
      TrainOnRanks(world, [&](int rank) { return Options(run, &gradients[static_cast<size_t>(rank)]); });
  for (size_t rank = 0; rank < results.size(); ++rank) {
    ASSERT_TRUE(results[rank].status.ok()) << results[rank].status;
    ExpectNear(gradients[rank], run["gradients"], 1e-6);
    std::vector<at::Tensor> weights;
    for (const auto& [name, tensor] : results[rank].tensors) weights.push_back(tensor);
    ExpectNear(weights, run["final"], 1e-6);
    ASSERT_EQ(results[rank].losses.size(), run["losses"].size());
    for (size_t i = 0; i < run["losses"].size(); ++i)
      EXPECT_NEAR(results[rank].losses[i], run["losses"][i].get<double>(), 2e-6) << "step " << i;
    EXPECT_EQ(results[rank].timestamp.token, run["tokens"].get<int64_t>());
  }
}

TEST(Gradients, OfMicrobatchesAreMosaicmls) {
  int runs = 0, by_tokens = 0;
  for (const Json& run : GradientsGolden()["runs"]) {
    ExpectAsGolden(run);
    ++runs;
    by_tokens += run["by_tokens"] ? 1 : 0;
  }
  EXPECT_EQ(runs, 8);
  EXPECT_EQ(by_tokens, 4);
}

// Otherwise the comparison would prove nothing.
TEST(Gradients, OfTheTwoWeightingsDiffer) {
  const Json& runs = GradientsGolden()["runs"];
  for (const Json& by_samples : runs) {
    for (const Json& by_tokens : runs) {
      if (by_samples["by_tokens"] || !by_tokens["by_tokens"] || by_samples["world"] != by_tokens["world"] ||
          by_samples["microbatch"] != by_tokens["microbatch"] || by_samples["microbatch"] == 10)
        continue;
      EXPECT_GT(std::abs(by_samples["losses"][0].get<double>() - by_tokens["losses"][0].get<double>()), 1e-4);
    }
  }
}

}  // namespace
}  // namespace composer

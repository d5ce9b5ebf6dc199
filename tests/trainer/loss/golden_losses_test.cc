// Compares values and gradients with those of mosaicml 0.32.1 (tests/golden/loss_functions.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "trainer/loss/binary_cross_entropy.h"
#include "trainer/loss/dice_loss.h"

namespace composer {
namespace {

using Json = nlohmann::json;

class GoldenLosses : public ::testing::Test {
 protected:
  GoldenLosses() {
    std::ifstream file("tests/golden/loss_functions.json");
    golden_ = Json::parse(file);
    indices_ = torch::tensor(golden_["indices"].get<std::vector<int64_t>>(), torch::kInt64).view({3, 2, 3});
    dense_ = Tensor(golden_["dense"]);
  }
  static at::Tensor Tensor(const Json& values) {
    return torch::tensor(values.get<std::vector<float>>()).view({3, 4, 2, 3});
  }
  template <typename Loss>
  void Expect(const Json& row, const at::Tensor& targets, const Loss& loss) {
    at::Tensor logits = Tensor(golden_["logits"]).requires_grad_(true);
    const at::Tensor value = loss(logits, targets);
    value.backward();
    EXPECT_NEAR(value.template item<double>(), row["loss"].get<double>(), 2e-6) << row["args"];
    EXPECT_LT((logits.grad() - Tensor(row["grad"])).abs().max().template item<double>(), 1e-6) << row["args"];
  }
  void ExpectDice(const Json& rows, const at::Tensor& targets) {
    for (const Json& row : rows) {
      const Json& args = row["args"];
      const auto flag = [&](const char* name) { return args.value(name, false); };
      const DiceLossOptions options{flag("sigmoid"),
                                    flag("softmax"),
                                    flag("squared_pred"),
                                    flag("jaccard"),
                                    flag("batch"),
                                    flag("ignore_absent_classes"),
                                    args.value("reduction", "mean") == "sum"};
      Expect(row, targets, [&](const at::Tensor& x, const at::Tensor& t) { return DiceLoss(x, t, options); });
    }
  }

  Json golden_;
  at::Tensor indices_, dense_;
};

TEST_F(GoldenLosses, BinaryCrossEntropy) {
  Expect(golden_["bce"]["indices"], indices_, BinaryCrossEntropyWithLogits);
  Expect(golden_["bce"]["dense"], dense_, BinaryCrossEntropyWithLogits);
}

TEST_F(GoldenLosses, Dice) {
  ASSERT_EQ(golden_["dice_indices"].size(), 8u);
  ASSERT_EQ(golden_["dice_dense"].size(), 2u);
  ExpectDice(golden_["dice_indices"], indices_);
  ExpectDice(golden_["dice_dense"], dense_);
}

TEST_F(GoldenLosses, RefuseWhatDoesNotFit) {
  const at::Tensor logits = Tensor(golden_["logits"]);
  EXPECT_THROW(BinaryCrossEntropyWithLogits(logits, indices_.slice(0, 1)), c10::ValueError);
  EXPECT_THROW(BinaryCrossEntropyWithLogits(logits, indices_.to(torch::kFloat)), c10::ValueError);
  EXPECT_THROW(DiceLoss(logits, dense_.slice(1, 1), {}), c10::ValueError);
  EXPECT_THROW(DiceLoss(logits, dense_, {.sigmoid = true, .softmax = true}), c10::ValueError);
}

// Without places, [B, C], every element is its own area.
TEST(DiceLoss, HasItsClosedForm) {
  const at::Tensor inputs = torch::tensor({{0.5, 0.25}}, torch::kDouble);
  const double e = 1e-5, first = 1 - (2 * 0.5 + e) / (1.5 + e), second = 1 - e / (0.25 + e);
  EXPECT_NEAR(DiceLoss(inputs, torch::tensor({0}, torch::kInt64), {}).item<double>(), (first + second) / 2, 1e-12);
}

}  // namespace
}  // namespace composer

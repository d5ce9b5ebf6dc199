// Models with our own kernels in place of LibTorch's operators: the same losses and gradients, up to rounding, and the
// kernels have run.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <optional>

#include "tests/trainer/kernels/host_kernels.h"
#include "tests/trainer/models/tiny_models.h"
#include "trainer/loop/autocast.h"
#include "trainer/models/language_model.h"

namespace composer {
namespace {

struct Step {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
  int64_t blocks = 0;
};

Batch Tokens(int64_t vocab) {
  Batch batch;
  batch.inputs = torch::randint(vocab, {2, 8}, at::kLong);
  batch.targets = batch.inputs.roll(-1, 1);
  batch.targets[0][3] = -100;
  batch.num_samples = 2;
  return batch;
}

template <typename Make>
Step OneStep(const Make& make, int64_t vocab, Precision precision, bool kernels, int64_t chunk) {
  torch::manual_seed(11);
  const std::shared_ptr<Model> model = make();
  dynamic_cast<LanguageModel&>(*model).SetLossChunk(chunk);
  const Batch batch = Tokens(vocab);
  std::optional<HostKernels> own;
  if (kernels) own.emplace();
  Step step;
  at::Tensor loss;
  {
    const AutocastScope autocast(precision, at::kCPU);
    loss = model->loss(model->forward(batch), batch).total;
  }
  loss.backward();
  step.loss = loss.item<double>();
  for (const auto& param : model->named_parameters()) step.gradients[param.key()] = param.value().grad();
  if (kernels) step.blocks = own->TakeBlocks();
  return step;
}

template <typename Make>
void TryModel(const Make& make, int64_t vocab, Precision precision, double tolerance) {
  for (const int64_t chunk : {0, 5}) {
    SCOPED_TRACE(chunk);
    const Step with = OneStep(make, vocab, precision, true, chunk),
               without = OneStep(make, vocab, precision, false, chunk);
    EXPECT_GT(with.blocks, 0);
    EXPECT_NEAR(with.loss, without.loss, tolerance);
    for (const auto& [name, gradient] : without.gradients) {
      const at::Tensor& other = with.gradients.at(name);
      ASSERT_EQ(gradient.defined(), other.defined()) << name;
      if (!gradient.defined()) continue;
      const double scale = gradient.abs().max().item().toDouble();
      EXPECT_LT((gradient - other).abs().max().item().toDouble(), tolerance * std::max(scale, 1e-3)) << name;
    }
  }
}

TEST(ModelsWithKernels, Gpt) {
  TryModel([] { return TinyGpt(13, 16); }, 13, Precision::kFp32, 1e-4);
}
TEST(ModelsWithKernels, Llama) {
  TryModel([] { return TinyLlama(13, 16); }, 13, Precision::kFp32, 1e-4);
}
TEST(ModelsWithKernels, GptInMixedPrecision) {
  TryModel([] { return TinyGpt(13, 16); }, 13, Precision::kAmpBf16, 6e-2);
}

}  // namespace
}  // namespace composer

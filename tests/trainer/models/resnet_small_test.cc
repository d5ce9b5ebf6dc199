// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/resnet_small.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

namespace composer {
namespace {

using ::testing::Contains;

Batch Images(int64_t count) {
  Batch batch;
  batch.inputs = torch::randn({count, 1, 28, 28});
  batch.targets = torch::randint(10, {count}, torch::kInt64);
  batch.num_samples = count;
  return batch;
}

TEST(ResNetSmall, HasTorchvisionsNamesAndItsSize) {
  const auto model = MakeResNetSmall({});
  const std::vector<std::string> names = model->named_parameters().keys();
  for (const char* name : {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
                           "layer3.0.bn2.weight", "fc.weight"}) {
    EXPECT_THAT(names, Contains(name));
  }
  EXPECT_THAT(model->named_buffers().keys(), Contains("layer1.0.bn1.running_mean"));
  int64_t parameters = 0;
  for (const at::Tensor& p : model->parameters()) parameters += p.numel();
  // Sums stem, three blocks, two shortcuts and head, each with its batch norms.
  const int64_t blocks =
      2 * 9 * 16 * 16 + (9 * 16 * 32 + 9 * 32 * 32) + (9 * 32 * 64 + 9 * 64 * 64) + 4 * (16 + 32 + 64);
  EXPECT_EQ(parameters, 9 * 16 + 32 + blocks + (16 * 32 + 64) + (32 * 64 + 128) + 64 * 10 + 10);
  const double multiplications = 14 * 14 * 9 * 16 + 14 * 14 * (2 * 9 * 16 * 16) +
                                 7 * 7 * (9 * 16 * 32 + 9 * 32 * 32 + 16 * 32) +
                                 4 * 4 * (9 * 32 * 64 + 9 * 64 * 64 + 32 * 64) + 640;
  EXPECT_EQ(model->flops_per_sample(), 6 * multiplications);
}

TEST(ResNetSmall, TakesAnyStrideDepthAndSize) {
  for (int64_t stride : {1, 2}) {
    ResNetSmallOptions options;
    options.stem_stride = stride;
    options.blocks = 2;
    options.widths = {4, 8};
    const auto model = MakeResNetSmall(options);
    const Batch batch = Images(3);
    const at::Tensor outputs = model->forward(batch);
    EXPECT_EQ(outputs.sizes(), (std::vector<int64_t>{3, 10}));
    model->loss(outputs, batch).total.backward();
    for (const auto& item : model->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
  }
  ResNetSmallOptions bad;
  bad.widths = {};
  EXPECT_THROW(MakeResNetSmall(bad), c10::ValueError);
  bad = {};
  bad.blocks = 0;
  EXPECT_THROW(MakeResNetSmall(bad), c10::ValueError);
}

TEST(ResNetSmall, LearnsOneBatchByHeart) {
  at::set_num_threads(1);  // other tests share the two cores, so threads that wait for each other would cost more
  torch::manual_seed(2);
  const auto model = MakeResNetSmall({});
  const Batch batch = Images(16);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  double loss = 0;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const at::Tensor value = model->loss(model->forward(batch), batch).total;
    value.backward();
    optimizer.step();
    loss = value.item<double>();
  }
  EXPECT_LT(loss, 0.1);
}

}  // namespace
}  // namespace composer

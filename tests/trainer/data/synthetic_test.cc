// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/synthetic.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <numeric>
#include <vector>

namespace composer {
namespace {

Batch LoadAll(const GaussianClassificationOptions& options) {
  const auto data = MakeGaussianClassification(options);
  EXPECT_TRUE(data.ok()) << data.status();
  std::vector<int64_t> ids((*data)->size());
  std::iota(ids.begin(), ids.end(), 0);
  return (*data)->Load(ids);
}

TEST(GaussianClassification, HasItsMoments) {
  GaussianClassificationOptions options;
  options.size = 20000;
  options.features = 8;
  options.classes = 4;
  options.separation = 3;
  const Batch batch = LoadAll(options);
  for (int64_t c = 0; c < 4; ++c) {
    const at::Tensor own = batch.inputs.index({batch.targets == c});
    EXPECT_EQ(own.size(0), 5000);
    EXPECT_LT((own.std(0) - 1).abs().max().item<double>(), 0.05);
  }
  const at::Tensor first = batch.inputs.index({batch.targets == 0}).mean(0);
  const at::Tensor second = batch.inputs.index({batch.targets == 1}).mean(0);
  EXPECT_GT((first - second).norm().item<double>(), 3);
}

TEST(GaussianClassification, DependsOnSeedsOnly) {
  GaussianClassificationOptions options;
  options.size = 40;
  const Batch batch = LoadAll(options);
  EXPECT_TRUE(torch::equal(batch.inputs, LoadAll(options).inputs));
  options.size = 20;  // a shorter set is a prefix of a longer one
  EXPECT_TRUE(torch::equal(batch.inputs.slice(0, 0, 20), LoadAll(options).inputs));
  options.sample_seed = 1;
  EXPECT_FALSE(torch::equal(batch.inputs.slice(0, 0, 20), LoadAll(options).inputs));
}

TEST(GaussianClassification, RefusesBadOptions) {
  GaussianClassificationOptions options;
  options.classes = 0;
  EXPECT_EQ(MakeGaussianClassification(options).status().message(), "classes: must be from 1 to 1073741824, got 0");
  options.classes = 10;
  options.size = int64_t{1} << 30;
  EXPECT_EQ(MakeGaussianClassification(options).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/tensor_dataset.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace composer {
namespace {

TEST(TensorDataset, LoadsRowsInTheOrderAskedFor) {
  const at::Tensor inputs = torch::arange(12, torch::kFloat).view({4, 3}), targets = torch::arange(4);
  const auto data = MakeTensorDataset(inputs, targets);
  EXPECT_EQ(data->size(), 4);
  const Batch batch = data->Load({3, 0, 3});
  EXPECT_TRUE(batch.inputs.equal(torch::stack({inputs[3], inputs[0], inputs[3]})));
  EXPECT_TRUE(batch.targets.equal(torch::tensor({3, 0, 3}, torch::kLong)));
  EXPECT_EQ(batch.num_samples, 3);
  EXPECT_EQ(batch.num_tokens, 0);
  const Batch none = data->Load({});
  EXPECT_EQ(none.num_samples, 0);
  EXPECT_EQ(none.inputs.sizes(), at::IntArrayRef({0, 3}));
}

TEST(TensorDataset, RowsAreTheSameHoweverTheyAreCopied) {
  const at::Tensor wide = torch::randn({40, 700}), other = torch::randn({3, 40}).t();  // one is not contiguous
  const auto data = MakeTensorDataset(wide, other);
  for (const int64_t count : {1, 23, 30}) {  // 2.8 KB, just below and above the limit
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back((i * 17) % 40);
    const Batch batch = data->Load(rows);
    const at::Tensor index = torch::tensor(rows, torch::kLong);
    EXPECT_TRUE(batch.inputs.equal(wide.index_select(0, index))) << count;
    EXPECT_TRUE(batch.targets.equal(other.index_select(0, index))) << count;
  }
  EXPECT_THROW(data->Load({40}), c10::Error);
  EXPECT_THROW(data->Load({-1}), c10::Error);
}

TEST(TensorDataset, WholeNumbersInRowsAreTokens) {
  const at::Tensor ids = torch::ones({5, 7}, torch::kLong);
  EXPECT_EQ(MakeTensorDataset(ids, ids)->Load({1, 2}).num_tokens, 14);
}

TEST(TensorDataset, RefusesWhatDoesNotFit) {
  EXPECT_THROW(MakeTensorDataset(torch::ones({4, 2}), torch::ones({3})), c10::ValueError);
  EXPECT_THROW(MakeTensorDataset({}, torch::ones({3})), c10::ValueError);
  EXPECT_THROW(MakeTensorDataset(torch::ones({3, 1}), torch::tensor(3)), c10::ValueError);
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/text_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

TEST(TextBytes, GivesInputsAndNextBytes) {
  TextBytesOptions options;
  options.context = 3;
  options.eval_fraction = 0.2;
  const auto train = MakeTextBytes("abcdefghij", options);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 2);  // "abcdefgh" has two samples; the targets of the second end with g
  const Batch batch = (*train)->Load({1, 0});
  EXPECT_EQ(batch.num_samples, 2);
  EXPECT_EQ(batch.num_tokens, 6);
  EXPECT_TRUE(torch::equal(batch.inputs, torch::tensor({{'d', 'e', 'f'}, {'a', 'b', 'c'}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({{'e', 'f', 'g'}, {'b', 'c', 'd'}}, torch::kInt64)));
  EXPECT_EQ((*train)->Load({}).inputs.sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_THROW((*train)->Load({2}), c10::IndexError);
  options.split = DataSplit::kEval;
  options.context = 1;
  const auto eval = MakeTextBytes("abcdefghi\xff", options);
  ASSERT_TRUE(eval.ok());
  EXPECT_EQ((*eval)->size(), 1);
  EXPECT_EQ((*eval)->Load({0}).inputs.item<int64_t>(), 'i');
  EXPECT_EQ((*eval)->Load({0}).targets.item<int64_t>(), 255);
}

TEST(TextBytes, RefusesBadOptionsAndShortTexts) {
  const auto message = [](const std::string& text, int64_t context, double fraction) {
    TextBytesOptions options;
    options.context = context;
    options.eval_fraction = fraction;
    const absl::Status status = MakeTextBytes(text, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message("abc", 3, 0), HasSubstr("has 3 bytes; one sample needs context + 1 = 4"));
  EXPECT_THAT(message("", 1, 0), HasSubstr("has 0 bytes"));
  EXPECT_THAT(message("abc", 0, 0), HasSubstr("context: must be at least 1, got 0"));
  EXPECT_THAT(message("abc", 1, 1), HasSubstr("eval_fraction: must be from 0 to below 1, got 1"));
}

TEST(TextBytes, JoinsFiles) {
  const TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("a"), "ab").ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("b"), "cd").ok());
  TextBytesOptions options;
  options.paths = {dir.Path("a"), dir.Path("b")};
  options.context = 3;
  options.eval_fraction = 0;
  const auto data = LoadTextBytes(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(torch::equal((*data)->Load({0}).targets, torch::tensor({{'b', 'c', 'd'}}, torch::kInt64)));
  options.paths.push_back(dir.Path("none"));
  EXPECT_EQ(LoadTextBytes(options).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace composer

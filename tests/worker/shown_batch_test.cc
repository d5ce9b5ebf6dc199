// SPDX-License-Identifier: Apache-2.0
#include "worker/shown_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

at::Tensor RowOfText(absl::string_view text) {
  std::vector<int64_t> ids(text.begin(), text.end());
  return torch::tensor(ids);
}

Batch Chats() {
  Batch batch;
  batch.inputs = torch::stack({RowOfText("ab cd"), RowOfText("xyz\n ")});
  batch.targets = torch::stack({RowOfText("b cd!"), RowOfText("yz\n  ")});
  batch.targets[0].slice(0, 0, 3).fill_(-100);
  batch.targets[1].slice(0, 3).fill_(-100);
  batch.extra["attention_mask"] = torch::tensor({{1, 1, 1, 1, 1}, {1, 1, 1, 1, 0}});
  batch.texts["source"] = {"web", "\x1b[31m"};
  batch.num_samples = 2;
  batch.num_tokens = 9;
  return batch;
}

TEST(ShownBatchTest, ABatchHasItsShapesAndCounts) {
  EXPECT_EQ(DescribeBatch(Chats()),
            "2 samples, 9 tokens; the loss counts 5\n"
            "  inputs          int64 [2, 5]\n"
            "  targets         int64 [2, 5]\n"
            "  attention_mask  int64 [2, 5]\n"
            "  source          2 texts\n");
}

TEST(ShownBatchTest, RowsOfTokensAreDecodedAndUncountedTargetsHidden) {
  const ByteTokenizer bytes;
  EXPECT_EQ(DescribeSample(Chats(), 0, &bytes, 0),
            "  inputs          97 98 32 99 100\n"
            "                  \"ab cd\"\n"
            "  targets         -100 -100 -100 100 33\n"
            "                  the loss counts 2 of 5\n"
            "                  \"…d!\"\n"
            "  attention_mask  1 1 1 1 1\n"
            "                  5 tokens, 0 of padding\n"
            "  source          \"web\"\n");
  const std::string second = DescribeSample(Chats(), 1, &bytes, 0);
  EXPECT_THAT(second, HasSubstr("\"yz\\n…\""));
  EXPECT_THAT(second, HasSubstr("4 tokens, 1 of padding"));
  EXPECT_THAT(second, HasSubstr("\"\\x1b[31m\""));
  EXPECT_THAT(DescribeSample(Chats(), 0, nullptr, 0), Not(HasSubstr("\"ab cd\"")));
}

TEST(ShownBatchTest, LongTextsAreCutBetweenCharacters) {
  Batch batch;
  batch.num_samples = 1;
  batch.texts["text"] = {"aé" + std::string(50, 'b')};
  EXPECT_EQ(DescribeSample(batch, 0, nullptr, 2), "  text            \"a\" …\n");
  EXPECT_EQ(DescribeSample(batch, 0, nullptr, 3), "  text            \"aé\" …\n");
  EXPECT_THAT(DescribeSample(batch, 0, nullptr, 0), HasSubstr("bbb\"\n"));
}

TEST(ShownBatchTest, OtherTensorsHaveTheirRangeAndScalarsTheirValue) {
  Batch batch;
  batch.num_samples = 1;
  batch.inputs = torch::tensor({-1.5F, 0.0F, 0.5F, 2.0F}).reshape({1, 1, 2, 2});
  batch.targets = torch::tensor({int64_t{7}});
  EXPECT_EQ(DescribeSample(batch, 0, nullptr, 0),
            "  inputs          from -1.5 to 2, mean 0.25\n"
            "  targets         7\n");
  EXPECT_THAT(DescribeBatch(batch), HasSubstr("inputs          float32 [1, 1, 2, 2]"));
  batch.inputs = torch::arange(100).reshape({1, 100}).to(at::kFloat);
  EXPECT_THAT(DescribeSample(batch, 0, nullptr, 0), HasSubstr("10 11 …  (100 numbers)"));
}

TEST(ShownBatchTest, AGridHasThePicturesInRows) {
  const auto grey = [](uint8_t value) { return Image{1, 2, 1, {value, value}}; };
  const auto grid = GridOf({grey(1), grey(2), grey(3)});
  ASSERT_TRUE(grid.ok()) << grid.status();
  EXPECT_EQ(grid->height, 3);
  EXPECT_EQ(grid->width, 5);
  EXPECT_THAT(grid->pixels, ::testing::ElementsAre(1, 1, 128, 2, 2, 128, 128, 128, 128, 128, 3, 3, 128, 128, 128));
  EXPECT_THAT(std::string(GridOf({grey(1), Image{2, 2, 1, {1, 1, 1, 1}}}).status().message()),
              HasSubstr("1 x 2 and 2 x 2"));
  EXPECT_FALSE(GridOf({Image{1, 70000, 1, std::vector<uint8_t>(70000)}}).ok());
}

}  // namespace
}  // namespace composer

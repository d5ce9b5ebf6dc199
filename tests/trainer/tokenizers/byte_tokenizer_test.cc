// SPDX-License-Identifier: Apache-2.0
#include "trainer/tokenizers/byte_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace composer {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(ByteTokenizer, TokensAreBytes) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  const std::string text = "a\xff\xc3\xa9";  // not UTF-8
  const Encoding encoding = tokenizer.Encode(text);
  EXPECT_THAT(encoding.ids, ElementsAre(97, 255, 195, 169));
  EXPECT_THAT(encoding.offsets, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(3, 4)));
  EXPECT_EQ(tokenizer.Decode(encoding.ids), text);
  EXPECT_EQ(tokenizer.Decode({97, 256, -1, 98}), "ab");
}

TEST(ByteTokenizer, AnEndIsAddedWhereItIsWanted) {
  const ByteTokenizer tokenizer(/*eos=*/true);
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_THAT(tokenizer.Encode("ab").ids, ElementsAre(97, 98, 256));
  EXPECT_THAT(tokenizer.Encode("ab").offsets.back(), Pair(2, 2));
  EXPECT_THAT(tokenizer.Encode("ab", false).ids, ElementsAre(97, 98));
}

TEST(Tokenizer, ABatchIsPaddedAndCut) {
  const ByteTokenizer tokenizer(/*eos=*/true);
  const Batch batch = tokenizer.EncodeBatch({"a", "bcd", ""}, {.max_length = 3});
  EXPECT_TRUE(batch.inputs.equal(torch::tensor({{97, 256, 0}, {98, 99, 256}, {256, 0, 0}}, torch::kLong)));
  EXPECT_TRUE(batch.Get("attention_mask").equal(torch::tensor({{1, 1, 0}, {1, 1, 1}, {1, 0, 0}}, torch::kLong)));
  EXPECT_EQ(batch.num_samples, 3);
  EXPECT_EQ(batch.num_tokens, 6);
  EXPECT_EQ(tokenizer.EncodeBatch({"a"}, {.max_length = 5, .to_max_length = true}).inputs.size(1), 5);
  EXPECT_THROW(tokenizer.EncodeBatch({"a"}, {.to_max_length = true}), c10::ValueError);
}

}  // namespace
}  // namespace composer

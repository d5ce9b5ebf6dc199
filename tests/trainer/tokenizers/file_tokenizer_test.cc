// SPDX-License-Identifier: Apache-2.0
#include "trainer/tokenizers/file_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using testing::HasSubstr;
using testing::Pair;

const std::string kTokenizers = "tests/golden/tokenizers/";

TEST(FileTokenizer, IsAPublishedTokenizer) {
  const FileTokenizer tokenizer({.path = kTokenizers + "wordpiece", .roles = {{"pad", "[PAD]"}, {"mask", "[MASK]"}}});
  EXPECT_EQ(tokenizer.special_tokens().cls, 2);
  EXPECT_EQ(tokenizer.special_tokens().sep, 3);
  EXPECT_EQ(tokenizer.special_tokens().pad, 0);
  EXPECT_EQ(tokenizer.special_tokens().mask, 4);
  EXPECT_EQ(tokenizer.special_tokens().unk, 1);
  EXPECT_FALSE(tokenizer.special_tokens().bos);
  const Encoding encoding = tokenizer.Encode("the workers");
  EXPECT_EQ(encoding.ids.front(), 2);
  EXPECT_EQ(encoding.ids.back(), 3);
  EXPECT_THAT(encoding.offsets[1], Pair(0, 3));
  EXPECT_EQ(tokenizer.Decode(encoding.ids), "the workers");
  EXPECT_GT(tokenizer.vocab_size(), encoding.ids[1]);
}

TEST(FileTokenizer, ABatchKeepsTheTokensAroundATextThatIsCut) {
  const FileTokenizer tokenizer({.path = kTokenizers + "wordpiece"});
  const Batch batch = tokenizer.EncodeBatch({"the workers of the launcher", ""}, {.max_length = 4});
  const std::vector<int64_t> whole = tokenizer.Encode("the workers of the launcher").ids;
  const std::vector<int64_t> rows = {2, whole[1], whole[2], 3, 2, 3, 0, 0};
  EXPECT_TRUE(batch.inputs.equal(torch::tensor(rows, torch::kLong).view({2, 4}))) << batch.inputs;
  EXPECT_EQ(batch.num_tokens, 6);
}

TEST(FileTokenizer, ItsFilesMakeItAgain) {
  const FileTokenizer folder({.path = kTokenizers + "wordpiece"}),
      file({.path = kTokenizers + "wordpiece/tokenizer.json"});
  EXPECT_THAT(folder.Files(), testing::Contains(file.Files()[0]));
  const TempDir copy;
  for (const auto& [name, bytes] : folder.Files()) ASSERT_TRUE(AtomicWriteFile(copy.Path(name), bytes).ok());
  EXPECT_EQ(FileTokenizer({.path = copy.path()}).Encode("the workers").ids, folder.Encode("the workers").ids);
}

TEST(FileTokenizer, MistakesNameTheFileAndTheKey) {
  const auto error = [](const FileTokenizerOptions& options) {
    return std::string(CatchTorch([&] { FileTokenizer tokenizer(options); }).message());
  };
  EXPECT_THAT(error({.path = "/none/tokenizer.json"}), HasSubstr("/none/tokenizer.json"));
  EXPECT_THAT(error({.path = kTokenizers + "bytes", .roles = {{"eos", "<eos>"}}}),
              HasSubstr("eos: `<eos>` is not a token"));
  EXPECT_THAT(error({.path = kTokenizers + "bytes", .pattern = "gpt9"}), HasSubstr("pattern: `gpt9` must be"));
}

}  // namespace
}  // namespace composer

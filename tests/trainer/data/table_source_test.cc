// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/tables/table_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>

#include "base/file.h"
#include "data/tables/arrow_loader.h"
#include "storage/memory_store.h"
#include "tests/support/moody_store.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/finetuning_source.h"
#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kRows = "tests/golden/tables/rows.parquet";

class TableSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!COMPOSER_HAS_ARROW) GTEST_SKIP() << "built without Arrow";
    ASSERT_TRUE(LoadArrow().ok()) << LoadArrow().status();
  }
};

TEST_F(TableSourceTest, AColumnIsATextOrATensor) {
  const auto source = OpenTables({.paths = {kRows}});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 10);
  const Sample row = (*source)->Get(3), first = (*source)->Get(0);
  EXPECT_EQ(row.texts.at("text"), "row 3 \xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(row.texts.at("image"), std::string("\xff\xd8\x03"));
  EXPECT_THAT(row.texts.at("messages"), HasSubstr("\"content\":\"q3\""));
  EXPECT_EQ(row.texts.count("maybe"), 0U) << "a missing value is left out";
  EXPECT_EQ(row.tensors.at("small").item<int64_t>(), 253);
  EXPECT_EQ(row.tensors.at("exact").scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(row.tensors.at("ids"), torch::tensor({0, 1, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(row.tensors.at("weights"), torch::tensor({1.5, -1.0}, at::kFloat)));
  EXPECT_EQ(first.tensors.at("ids").sizes(), at::IntArrayRef({0}));
}

TEST_F(TableSourceTest, FeaturesAndTargetAreInputsAndTargets) {
  const auto source =
      OpenTables({.paths = {kRows}, .columns = {"text"}, .features = {"score", "small"}, .target = "id"});
  ASSERT_TRUE(source.ok()) << source.status();
  const Sample row = (*source)->Get(4);
  EXPECT_TRUE(at::equal(row.tensors.at("inputs"), torch::tensor({0.5, 254.0}, at::kFloat)));
  EXPECT_EQ(row.tensors.at("targets").item<int64_t>(), 1);
  EXPECT_EQ(row.tensors.size(), 2U);
  EXPECT_EQ(row.texts.size(), 1U);
  EXPECT_THAT(OpenTables({.paths = {kRows}, .features = {"text"}}).status().message(),
              HasSubstr("column `text` does not hold numbers"));
  EXPECT_THAT(OpenTables({.paths = {kRows}, .target = "score"}).status().message(),
              HasSubstr("column `score` does not hold whole numbers"));
  EXPECT_THAT(OpenTables({.paths = {kRows}, .target = "class"}).status().message(),
              HasSubstr("there is no column `class`"));
}

// Ten rows in groups of four, four and two.
TEST_F(TableSourceTest, AShuffledEpochReadsGroupByGroup) {
  const auto source = OpenTables({.paths = {kRows}, .shuffle_bytes = 1});
  const OrderRequest request{.size = 10, .seed = 5, .shuffle = true};
  const auto order = (*source)->OwnOrder(request);
  ASSERT_NE(order, nullptr);
  EXPECT_EQ((*source)->OwnOrder({.size = 10, .seed = 5, .shuffle = false}), nullptr);
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    std::vector<int64_t> ids(10);
    order->Read(epoch, 0, absl::MakeSpan(ids));
    // Blocks are of two or so rows here, so that at the edge of a group rows of its neighbour may come between.
    for (int64_t group = 0; group < 3; ++group) {
      const auto is_of = [group](int64_t id) { return id / 4 == group; };
      const auto first = std::find_if(ids.begin(), ids.end(), is_of);
      const auto last = std::find_if(ids.rbegin(), ids.rend(), is_of);
      EXPECT_LE(last.base() - first, 4 + 2) << "group " << group << " is read in one go";
    }
    epochs.push_back(ids);
    std::sort(ids.begin(), ids.end());
    for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], i);
  }
  std::sort(epochs.begin(), epochs.end());
  EXPECT_GT(std::unique(epochs.begin(), epochs.end()) - epochs.begin(), 1) << "epochs differ";
  std::vector<int64_t> mixed(10);
  (*OpenTables({.paths = {kRows}}))->OwnOrder(request)->Read(0, 0, absl::MakeSpan(mixed));
  EXPECT_FALSE(std::is_sorted(mixed.begin(), mixed.end()));
}

TEST_F(TableSourceTest, MappedFilesAreShuffledAsAWhole) {
  const auto source = OpenTables({.paths = {"tests/golden/tables/rows.arrow"}, .format = TableFormat::kArrow});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->OwnOrder({.size = 10, .seed = 5, .shuffle = true}), nullptr);
  EXPECT_EQ((*source)->Get(9).tensors.at("id").item<int64_t>(), 6);
}

class TableChatsTest : public TableSourceTest {
 protected:
  static absl::StatusOr<std::shared_ptr<const SampleSource>> Open(const std::string& name, TableFormat format) {
    FinetuningOptions options;
    options.turn_begin = "<{role}>";
    options.turn_end = ";";
    TableOptions tables{.paths = {"tests/golden/tables/" + name}, .format = format};
    tables.columns = FinetuningKeys(options);
    tables.if_present = true;
    const auto rows = OpenTables(tables);
    if (!rows.ok()) return rows.status();
    return OpenFinetuning(options, std::make_shared<const ByteTokenizer>(/*eos=*/true), *rows);
  }
  // What is learned, as text; `_` for what is not.
  static std::string Learned(const Sample& sample) {
    std::string text;
    const at::Tensor targets = sample.tensors.at("targets");
    for (int64_t i = 0; i < targets.size(0); ++i) {
      const auto id = targets[i].item<int64_t>();
      text += id == -100 ? '_' : id > 255 ? '$' : static_cast<char>(id);
    }
    return text;
  }
};

TEST_F(TableChatsTest, LearnWhatTheAssistantSays) {
  const auto chats = Open("chats.parquet", TableFormat::kParquet);
  ASSERT_TRUE(chats.ok()) << chats.status();
  ASSERT_EQ((*chats)->size(), 3);
  EXPECT_EQ(Learned((*chats)->Get(1)), "____________________yo1;$");  // <user>hi1;<assistant>yo1;$
  EXPECT_NE((*chats)->OwnOrder({.size = 3, .seed = 5, .shuffle = true}), nullptr) << "the rows' order";
  const auto prompts = Open("prompts.arrow", TableFormat::kArrow);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ(Learned((*prompts)->Get(0)), "_cde$");
}

TEST_F(TableChatsTest, WhatIsNoChatIsNamed) {
  EXPECT_THAT(Open("documents.parquet", TableFormat::kParquet).status().message(),
              HasSubstr("documents.parquet: it has none of the columns; it has text, left, right, class"));
  const auto silent = Open("rows.parquet", TableFormat::kParquet);
  ASSERT_TRUE(silent.ok()) << silent.status();
  try {
    (*silent)->Get(2);
    ADD_FAILURE();
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("row 2: there is no text `content`"));
  }
}

TEST_F(TableSourceTest, FilesInAStoreNeedAFolder) {
  EXPECT_THAT(OpenTables({.paths = {"s3://bucket/a.parquet"}}).status().message(),
              HasSubstr("local: required for s3://bucket/a.parquet: the folder for the files that are fetched"));
}

// Rows of three files of ten, of which the cache may hold one and a half at a time.
TEST_F(TableSourceTest, WithABoundedCacheFilesAreReadOneAfterTheOther) {
  const TempDir cache;
  const auto memory = std::make_shared<MemoryStore>();
  const std::string bytes = ReadFile(kRows).value();
  for (const char* name : {"a.parquet", "b.parquet", "c.parquet"}) ASSERT_TRUE(memory->Put(name, {bytes}).ok());
  const auto moody = std::make_shared<MoodyStore>(memory, "moody://rows/", 0, 0);
  TableOptions options{.paths = {"moody://rows"}, .columns = {"id"}, .shuffle_bytes = 1};
  options.fetch = {.local = cache.path(), .cache_limit = static_cast<int64_t>(bytes.size()) * 3 / 2};
  const auto source =
      OpenTables(options, [&](const std::string&) -> absl::StatusOr<std::shared_ptr<ObjectStore>> { return moody; });
  ASSERT_TRUE(source.ok()) << source.status();
  const auto order = (*source)->OwnOrder({.size = 30, .seed = 5, .shuffle = true});
  ASSERT_NE(order, nullptr);
  std::vector<int64_t> ids(30);
  order->Read(0, 0, absl::MakeSpan(ids));
  int changes = 0;
  for (size_t i = 1; i < ids.size(); ++i) changes += ids[i] / 10 != ids[i - 1] / 10 ? 1 : 0;
  EXPECT_LE(changes, 6) << "a file's rows come together, but at its edges";
  for (const int64_t id : ids) EXPECT_EQ((*source)->Get(id).tensors.at("id").item<int64_t>(), id % 10 - 3);
}

TEST_F(TableSourceTest, WhatCannotBeReadIsNamed) {
  const auto source = OpenTables({.paths = {"tests/golden/tables/hard.parquet"}});
  try {
    (*source)->Get(0);
    ADD_FAILURE();
  } catch (const StatusError& error) {
    EXPECT_THAT(std::string(error.status().message()), HasSubstr("hard.parquet, row 0: column `big`"));
  }
}

}  // namespace
}  // namespace composer

// Tests Parquet and Arrow files that lie in a store: what is fetched when, and what becomes of a store that fails, lies
// or changes.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "data/tables/arrow_loader.h"
#include "data/tables/table_files.h"
#include "storage/memory_store.h"
#include "tests/support/moody_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

class RemoteTables : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!COMPOSER_HAS_ARROW) GTEST_SKIP() << "built without Arrow: " << LoadArrow().status().message();
    for (const char* name : {"rows.parquet", "rows.arrow", "stream.arrow", "compressed.feather"}) {
      const std::string bytes = ReadFile(absl::StrCat("tests/golden/tables/", name)).value();
      for (const char* copy : {"0-", "1-"}) ASSERT_TRUE(memory_->Put(absl::StrCat(copy, name), {bytes}).ok());
    }
    ASSERT_TRUE(memory_->Put("README.md", {"about it"}).ok());
    ASSERT_TRUE(memory_->Put("deeper/x.parquet", {"not meant"}).ok());
  }

  absl::StatusOr<std::shared_ptr<const TableFiles>> Open(const std::string& path, int failures = 0, int lies = 0,
                                                         std::optional<int64_t> cache_limit = std::nullopt) {
    moody_ = std::make_shared<MoodyStore>(memory_, "moody://tables/", failures, lies);
    TableFilesOptions options{.paths = {path}, .keep_bytes = 1};
    options.format = absl::EndsWith(path, ".arrow") || absl::EndsWith(path, ".feather") ? TableFormat::kArrow
                                                                                        : TableFormat::kParquet;
    options.columns.names = columns_;
    options.fetch = {.local = cache_.path(), .cache_limit = cache_limit, .download_retry = 2};
    options.open_store = [this](const std::string& place) -> absl::StatusOr<std::shared_ptr<ObjectStore>> {
      EXPECT_EQ(place, "moody://tables");
      return moody_;
    };
    return TableFiles::Open(options);
  }
  static int64_t IdOf(const TableFiles& tables, int64_t row) {
    std::vector<ArrowValue> values;
    const absl::Status status = tables.Read(row, values);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? values[0].integer : -1;
  }
  void ForgetFetched() { ASSERT_TRUE(RemoveTree(JoinPath(cache_.path(), "composer-shards")).ok()); }

  TempDir cache_;
  std::vector<std::string> columns_ = {"id"};
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
  std::shared_ptr<MoodyStore> moody_;
};

TEST_F(RemoteTables, OfParquetFilesOnlyTheEndIsFetchedAtTheStart) {
  for (int start = 0; start < 2; ++start) {
    const auto tables = Open("moody://tables");
    ASSERT_TRUE(tables.ok()) << tables.status();
    ASSERT_EQ((*tables)->size(), 20);
    EXPECT_EQ(moody_->reads, start == 0 ? 2 : 0) << "two ends";
    EXPECT_EQ(IdOf(**tables, 12), -1);
    EXPECT_EQ(moody_->reads, start == 0 ? 3 : 0) << "the second file";
    for (int64_t row = 0; row < 20; ++row) EXPECT_EQ(IdOf(**tables, row), row % 10 - 3);
    EXPECT_EQ(moody_->reads, start == 0 ? 4 : 0) << "each file once";
    EXPECT_EQ((*tables)->Where(13), "moody://tables/1-rows.parquet, row 3");
  }
}

TEST_F(RemoteTables, ArrowFilesAreFetchedOnceAndKnownAtLaterStarts) {
  for (const char* path :
       {"moody://tables/*-rows.arrow", "moody://tables/?-stream.arrow", "moody://tables/[01]-compressed.feather"}) {
    for (int start = 0; start < 2; ++start) {
      const auto tables = Open(path);
      ASSERT_TRUE(tables.ok()) << tables.status();
      EXPECT_EQ(moody_->reads, start == 0 ? 2 : 0) << path;
      for (int64_t row = 0; row < 20; ++row) EXPECT_EQ(IdOf(**tables, row), row % 10 - 3);
      EXPECT_EQ(moody_->reads, start == 0 ? 2 : 0) << path;
    }
  }
}

TEST_F(RemoteTables, AreFetchedAgainWhenTheStoreFailsOrLies) {
  for (const char* path : {"moody://tables/0-rows.parquet", "moody://tables/0-rows.arrow"}) {
    const auto tables = Open(path, 1, 1);
    ASSERT_TRUE(tables.ok()) << tables.status();
    EXPECT_EQ(moody_->reads, 3);
    EXPECT_EQ(IdOf(**tables, 9), 6);
  }
  EXPECT_THAT(Open("moody://tables/1-rows.parquet", 9).status().message(),
              HasSubstr("moody://tables/1-rows.parquet: after 3 tries: the store is busy"));
  EXPECT_THAT(Open("moody://tables/1-rows.parquet", 0, 9).status().message(), HasSubstr("this is no Parquet file"));
}

// The end of a file is good, and its rows are not.
TEST_F(RemoteTables, ADamagedFileIsAnErrorThatNamesIt) {
  std::string bytes = memory_->Size("0-rows.parquet").ok() ? ReadFile("tests/golden/tables/rows.parquet").value() : "";
  std::fill(bytes.begin() + 4, bytes.begin() + 400, '\7');
  ASSERT_TRUE(memory_->Put("0-rows.parquet", {bytes}).ok());
  const auto tables = Open("moody://tables/0-rows.parquet");
  ASSERT_TRUE(tables.ok()) << tables.status();
  std::vector<ArrowValue> row;
  const absl::Status status = (*tables)->Read(0, row);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("moody://tables/0-rows.parquet: after 3 tries: "));
  EXPECT_EQ(moody_->reads, 1 + 3) << "the end, and three tries";
}

TEST_F(RemoteTables, AFileThatChangedIsNotTakenForTheOldOne) {
  EXPECT_EQ(IdOf(**Open("moody://tables/0-rows.parquet"), 0), -3);
  ForgetFetched();
  std::string other = ReadFile("tests/golden/tables/rows.parquet").value();
  other[5] = static_cast<char>(other[5] ^ 1);
  ASSERT_TRUE(memory_->Put("0-rows.parquet", {other}).ok());
  const auto tables = Open("moody://tables/0-rows.parquet");
  ASSERT_TRUE(tables.ok()) << tables.status();
  std::vector<ArrowValue> row;
  EXPECT_THAT((*tables)->Read(0, row).message(), HasSubstr("another than at its first use; then delete "));
}

TEST_F(RemoteTables, ABoundedCacheHoldsNoMoreThanItsLimit) {
  for (const std::string name : {"rows.parquet", "rows.arrow"}) {
    const int64_t bytes = memory_->Size(absl::StrCat("0-", name)).value();
    const auto tables = Open(absl::StrCat("moody://tables/*-", name), 0, 0, bytes + bytes / 2);
    ASSERT_TRUE(tables.ok()) << tables.status();
    for (const int64_t row : {0, 19, 5, 12}) EXPECT_EQ(IdOf(**tables, row), row % 10 - 3);
    EXPECT_GE(moody_->reads, 4) << "only one fits";
  }
}

TEST_F(RemoteTables, ColumnsAreNamedBeforeAnythingIsFetched) {
  columns_ = {"body"};
  EXPECT_THAT(Open("moody://tables/0-rows.parquet").status().message(),
              HasSubstr("moody://tables/0-rows.parquet: it has no column `body`; it has id, small"));
  EXPECT_THAT(Open("moody://tables/0-rows.arrow").status().message(), HasSubstr("it has no column `body`"));
  EXPECT_EQ(moody_->reads, 1) << "another fetch would not help";
  columns_ = {"id", "text"};
  EXPECT_EQ(IdOf(**Open("moody://tables/0-rows.arrow"), 4), 1) << "the list that was kept is of other columns";
  EXPECT_THAT(Open("moody://tables/x-*.parquet").status().message(), HasSubstr("x-*.parquet: there is no such file"));
}

}  // namespace
}  // namespace composer

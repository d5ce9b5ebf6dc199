// SPDX-License-Identifier: Apache-2.0
#include "data/tables/table_files.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "data/tables/arrow_loader.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const char kTables[] = "tests/golden/tables/";

// Where Arrow was there when this was configured, it must load.
#define NEEDS_ARROW()                                                                                 \
  if (!COMPOSER_HAS_ARROW) GTEST_SKIP() << "built without Arrow: " << LoadArrow().status().message(); \
  ASSERT_TRUE(LoadArrow().ok()) << LoadArrow().status()

absl::StatusOr<std::shared_ptr<const TableFiles>> OpenGolden(const std::string& name,
                                                             std::vector<std::string> columns = {},
                                                             int64_t keep_bytes = 1 << 20) {
  const bool parquet = name.find("parquet") != std::string::npos;
  return TableFiles::Open({.paths = {absl::StrCat(kTables, name)},
                           .format = parquet ? TableFormat::kParquet : TableFormat::kArrow,
                           .columns = {std::move(columns)},
                           .keep_bytes = keep_bytes});
}

Json Plain(const ArrowValue& value) {
  switch (value.kind) {
    case ArrowKind::kNull:
      return nullptr;
    case ArrowKind::kInteger:
      return value.integer;
    case ArrowKind::kNumber:
      return value.number;
    case ArrowKind::kIntegers:
      return value.integers;
    case ArrowKind::kNumbers:
      return value.numbers;
    case ArrowKind::kBytes:
      return absl::BytesToHexString(value.text);
    case ArrowKind::kText:
    case ArrowKind::kJson:
      break;
  }
  return value.text;
}

TEST(TableFiles, EveryFormatHasTheValuesThatPyarrowGives) {
  NEEDS_ARROW();
  const Json golden = Json::parse(ReadFile(absl::StrCat(kTables, "rows.json")).value())["rows"];
  ASSERT_EQ(golden.size(), 10U);
  for (const char* name : {"rows.parquet", "snappy.parquet", "rows.arrow", "compressed.feather", "stream.arrow"}) {
    SCOPED_TRACE(name);
    const auto tables = OpenGolden(name, {}, /*keep_bytes=*/1);
    ASSERT_TRUE(tables.ok()) << tables.status();
    ASSERT_EQ((*tables)->size(), 10);
    std::vector<ArrowValue> row;
    for (const int64_t i : {9, 0, 3, 4, 1, 2, 5, 8, 7, 6}) {
      ASSERT_TRUE((*tables)->Read(i, row).ok());
      for (size_t c = 0; c < row.size(); ++c) {
        const std::string& column = (*tables)->columns()[c].name;
        EXPECT_EQ(Plain(row[c]), golden[static_cast<size_t>(i)][column]) << column << " of row " << i;
      }
    }
    EXPECT_FALSE((*tables)->Read(10, row).ok());
  }
}

TEST(TableFiles, GroupsTellTheMemoryThatTheyTake) {
  NEEDS_ARROW();
  const auto parquet = OpenGolden("rows.parquet"), mapped = OpenGolden("rows.arrow"),
             packed = OpenGolden("compressed.feather");
  ASSERT_EQ((*parquet)->groups().size(), 3U);
  EXPECT_EQ((*parquet)->groups()[2].rows, 2);
  EXPECT_GT((*parquet)->groups()[0].bytes, 0);
  EXPECT_EQ((*mapped)->groups()[0].bytes, 0);
  EXPECT_GT((*packed)->groups()[0].bytes, 0);
  EXPECT_EQ((*parquet)->Where(5), "tests/golden/tables/rows.parquet, row 5");
}

TEST(TableFiles, ColumnsAreChosenByName) {
  NEEDS_ARROW();
  const auto tables = OpenGolden("rows.parquet", {"messages", "id"});
  ASSERT_TRUE(tables.ok()) << tables.status();
  std::vector<ArrowValue> row;
  ASSERT_TRUE((*tables)->Read(4, row).ok());
  ASSERT_EQ(row.size(), 2U);
  EXPECT_EQ(row[1].integer, 1);
  EXPECT_THAT(row[0].text, HasSubstr("\"content\":\"q4\""));
  const auto none = OpenGolden("rows.parquet", {"body"});
  EXPECT_THAT(none.status().message(), HasSubstr("rows.parquet: it has no column `body`; it has id, small"));
}

TEST(TableFiles, ValuesThatNoSampleCanHoldAreNamed) {
  NEEDS_ARROW();
  std::vector<ArrowValue> row;
  const auto big = OpenGolden("hard.parquet", {"text", "big"});
  EXPECT_THAT((*big)->Read(0, row).message(), HasSubstr("hard.parquet, row 0: column `big` holds a number above 2^63"));
  const auto gap = OpenGolden("hard.parquet", {"gap"});
  EXPECT_THAT((*gap)->Read(0, row).message(),
              HasSubstr("column `gap` holds a list of numbers in which one is missing"));
  const auto mixed =
      TableFiles::Open({.paths = {absl::StrCat(kTables, "rows.parquet"), absl::StrCat(kTables, "other.parquet")},
                        .columns = {{"text"}}});
  EXPECT_THAT(mixed.status().message(), HasSubstr("other.parquet: its column `text` is of another type than that of "));
}

TEST(TableFiles, AFolderGivesItsTablesAndAWrongFormatIsNamed) {
  NEEDS_ARROW();
  const TempDir folder;
  const std::string parquet = ReadFile(absl::StrCat(kTables, "rows.parquet")).value();
  ASSERT_TRUE(AtomicWriteFile(folder.Path("train-00000-of-00002.parquet"), parquet).ok());
  ASSERT_TRUE(AtomicWriteFile(folder.Path("train-00001-of-00002.parquet"), parquet).ok());
  ASSERT_TRUE(AtomicWriteFile(folder.Path("README.md"), "about it").ok());
  const auto tables = TableFiles::Open({.paths = {folder.Path("")}});
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ((*tables)->size(), 20);
  EXPECT_THAT((*tables)->Where(13), HasSubstr("train-00001-of-00002.parquet, row 3"));
  EXPECT_THAT(TableFiles::Open({.paths = {folder.Path("")}, .format = TableFormat::kArrow}).status().message(),
              HasSubstr("there is no file of the ending .arrow, .feather or .ipc in this folder"));
  EXPECT_THAT(TableFiles::Open({.paths = {folder.Path("README.md")}}).status().message(),
              HasSubstr("README.md: this is no Parquet file"));
  EXPECT_THAT(TableFiles::Open({.paths = {absl::StrCat(kTables, "rows.arrow")}}).status().message(),
              HasSubstr("it is one for arrow"));
}

// A damaged file is an error or gives other values, and no more.
TEST(TableFiles, DamagedFilesAreErrors) {
  NEEDS_ARROW();
  const TempDir folder;
  for (const char* name : {"rows.parquet", "rows.arrow", "stream.arrow", "compressed.feather"}) {
    const std::string good = ReadFile(absl::StrCat(kTables, name)).value();
    const TableFormat format = absl::StrContains(name, "parquet") ? TableFormat::kParquet : TableFormat::kArrow;
    int errors = 0;
    for (size_t at = 8; at < good.size(); at += 71) {
      std::string bad = good;
      if (at % 2 == 0) {
        bad.resize(at);
      } else {
        bad[at] = static_cast<char>(bad[at] ^ 0x55);
      }
      const std::string path = folder.Path(name);
      std::ofstream(path, std::ios::binary) << bad;
      const auto tables = TableFiles::Open({.paths = {path}, .format = format});
      bool failed = !tables.ok();
      std::vector<ArrowValue> row;
      for (int64_t i = 0; !failed && i < (*tables)->size(); ++i) failed = !(*tables)->Read(i, row).ok();
      errors += failed ? 1 : 0;
    }
    EXPECT_GT(errors, 10) << name;
  }
}

TEST(TableFiles, ManyThreadsReadTheSame) {
  NEEDS_ARROW();
  const auto tables = OpenGolden("rows.parquet", {"id"}, /*keep_bytes=*/1);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<ArrowValue> row;
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t at = (i * 7 + t) % 10;
        if (!(*tables)->Read(at, row).ok() || row[0].integer != at - 3) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// libparquet exports most of OpenSSL: whoever calls it must go on using Debian's.
TEST(ArrowLoader, OpenSslIsDebians) {
  NEEDS_ARROW();
  for (void* symbol : {reinterpret_cast<void*>(&EVP_DigestInit_ex), dlsym(RTLD_DEFAULT, "EVP_DigestInit_ex")}) {
    Dl_info found = {};
    ASSERT_NE(dladdr(symbol, &found), 0);
    EXPECT_THAT(found.dli_fname, HasSubstr("libcrypto.so.3"));
  }
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "composer_arrow_open"), nullptr) << "its names are local";
}

}  // namespace
}  // namespace composer

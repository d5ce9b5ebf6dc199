// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/format/little_endian.h"
#include "data/codec/compression.h"
#include "data/codec/hashing.h"
#include "data/mds/reader.h"
#include "data/mds/rows.h"
#include "data/mds/writer.h"
#include "storage/local_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* const kGoldens = "tests/golden/mds";

nlohmann::json GoldenSets(const char* kind = "sets") {
  std::ifstream file(JoinPath(kGoldens, "values.json"));
  return nlohmann::json::parse(file).at(kind);
}

std::vector<std::string> ValuesOf(const nlohmann::json& sample) {
  std::vector<std::string> values;
  for (const nlohmann::json& value : sample) values.push_back(absl::HexStringToBytes(value.get<std::string>()));
  return values;
}

std::vector<absl::string_view> ViewsOf(const std::vector<std::string>& values) {
  return {values.begin(), values.end()};
}

std::unique_ptr<MdsReader> OpenFolder(const std::string& folder, const std::string& hash = "") {
  return MdsReader::Create(ReadMdsIndex(folder).value(), LocalShards(folder, hash)).value();
}

TEST(MdsReader, ReadsWhatMdsWriterWrote) {
  int sets = 0;
  for (const nlohmann::json& set : GoldenSets()) {
    SCOPED_TRACE(set.at("name"));
    const auto reader = OpenFolder(JoinPath(kGoldens, set.at("name").get<std::string>()));
    ASSERT_EQ(reader->size(), static_cast<int64_t>(set.at("samples").size()));
    MdsSample sample;
    for (int64_t i = 0; i < reader->size(); ++i) {
      const absl::Status read = reader->Read(i, sample);
      ASSERT_TRUE(read.ok()) << read;
      const std::vector<std::string> values = ValuesOf(set["samples"][static_cast<size_t>(i)]);
      ASSERT_EQ(sample.columns, ViewsOf(values)) << i;
      for (size_t c = 0; c < values.size(); ++c) {
        const absl::Status good = CheckValue(reader->columns()[c].encoding, values[c]);
        EXPECT_TRUE(good.ok()) << reader->columns()[c].name << ": " << good;
      }
    }
    ++sets;
  }
  EXPECT_GE(sets, 10);
}

TEST(MdsReader, ReadsRowsOfText) {
  int sets = 0;
  for (const nlohmann::json& set : GoldenSets("rows")) {
    SCOPED_TRACE(set.at("name"));
    const std::string folder = JoinPath(kGoldens, set.at("name").get<std::string>());
    const auto reader = OpenFolder(folder, "sha1");
    ASSERT_EQ(reader->size(), static_cast<int64_t>(set.at("samples").size()));
    EXPECT_EQ(reader->columns()[2].encoding.name, "float64");
    MdsSample sample;
    for (int64_t i = 0; i < reader->size(); ++i) {
      const absl::Status read = reader->Read(i, sample);
      ASSERT_TRUE(read.ok()) << read;
      const std::vector<std::string> values = ValuesOf(set["samples"][static_cast<size_t>(i)]);
      ASSERT_EQ(sample.columns, ViewsOf(values)) << i;
    }
    const std::string text = ReadFile(JoinPath(folder, "index.json")).value();
    EXPECT_EQ(MdsIndexText(ParseMdsIndex(text).value()), text);
    ++sets;
  }
  EXPECT_EQ(sets, 4);
}

TEST(MdsReader, NamesTheRowThatIsWrong) {
  const auto error = [](const std::string& set, absl::string_view from, absl::string_view to) {
    const std::string folder = JoinPath(kGoldens, set);
    const MdsShardInfo info = ReadMdsIndex(folder).value().shards[0];
    std::string plain = ReadFile(JoinPath(folder, info.raw.name)).value();
    EXPECT_THAT(plain, HasSubstr(from));
    plain.replace(plain.find(std::string(from)), from.size(), std::string(to));
    plain += ReadFile(JoinPath(folder, info.rows->raw_meta.name)).value();
    return std::string(MdsOfPlain({nullptr, plain}, info).status().message());
  };
  EXPECT_EQ(error("rows-tsv", "-3\t", "-3x"), "row 0: it has 2 values for 3 columns");
  EXPECT_EQ(error("rows-tsv", "-2", "-y"), "row 1: column `n` has no int");
  EXPECT_EQ(error("rows-json", "\"n\": -2", "\"m\": -2"), "row 1: column `n` has no int");
  EXPECT_EQ(error("rows-json", "{", "["), "row 0: it is not a JSON object");
  EXPECT_EQ(error("rows-tsv", "-2", "-22"), "the shard has another size than the index says");
}

TEST(MdsReader, ChecksEveryHashThatPythonOffers) {
  const std::string folder = JoinPath(kGoldens, "every");
  const MdsIndex index = ReadMdsIndex(folder).value();
  ASSERT_EQ(index.shards[0].raw.hashes.size(), 16);
  for (const auto& [algorithm, digest] : index.shards[0].raw.hashes) {
    MdsSample sample;
    EXPECT_TRUE(OpenFolder(folder, algorithm)->Read(0, sample).ok()) << algorithm;
  }
  MdsSample sample;
  EXPECT_THAT(OpenFolder(JoinPath(kGoldens, "shards"), "md5")->Read(0, sample).message(), HasSubstr("it has: sha1"));
  EXPECT_TRUE(OpenFolder(JoinPath(kGoldens, "gz"), "xxh64")->Read(0, sample).ok());
}

TEST(MdsWriter, WritesWhatMdsWriterWrites) {
  for (const nlohmann::json& set : GoldenSets()) {
    SCOPED_TRACE(set.at("name"));
    TempDir folder;
    MdsWriterOptions options;
    for (const auto& [name, encoding] : set.at("columns").items()) options.columns.emplace_back(name, encoding);
    options.compression = set.at("compression").get<std::string>();
    options.hashes = set.at("hashes").get<std::vector<std::string>>();
    options.size_limit.reset();
    if (!set.at("size_limit").is_null()) options.size_limit = set["size_limit"].get<int64_t>();
    const auto writer = MdsWriter::Create(std::make_shared<LocalStore>(folder.Path("out")), options).value();
    for (const nlohmann::json& sample : set.at("samples")) {
      const std::vector<std::string> values = ValuesOf(sample);
      const absl::Status written = writer->Write(ViewsOf(values));
      ASSERT_TRUE(written.ok()) << written;
    }
    ASSERT_TRUE(writer->Finish().ok());
    const std::string golden = JoinPath(kGoldens, set.at("name").get<std::string>());
    if (options.compression.empty()) {
      const std::vector<std::string> names = ListDir(golden).value();
      ASSERT_EQ(ListDir(folder.Path("out")).value(), names);
      for (const std::string& name : names)
        EXPECT_EQ(ReadFile(JoinPath(folder.Path("out"), name)).value(), ReadFile(JoinPath(golden, name)).value())
            << name;
    }
    const auto reader = OpenFolder(folder.Path("out"), options.hashes.empty() ? "" : options.hashes[0]);
    const auto theirs = OpenFolder(golden);
    ASSERT_EQ(reader->ShardSizes(), theirs->ShardSizes());
    for (int64_t i = 0; i < reader->size(); ++i) {
      MdsSample ours, golden_sample;
      ASSERT_TRUE(reader->Read(i, ours).ok());
      ASSERT_TRUE(theirs->Read(i, golden_sample).ok());
      ASSERT_EQ(ours.columns, golden_sample.columns);
    }
  }
}

TEST(MdsWriter, RefusesWhatItCannotWrite) {
  TempDir folder;
  const auto store = std::make_shared<LocalStore>(folder.Path("out"));
  const auto error = [&](MdsWriterOptions options) {
    return std::string(MdsWriter::Create(store, std::move(options)).status().message());
  };
  EXPECT_THAT(error({.columns = {}}), HasSubstr("at least one column"));
  EXPECT_THAT(error({.columns = {{"x", "pkl"}}}), HasSubstr("column `x`: encoding `pkl` is refused"));
  EXPECT_THAT(error({.columns = {{"x", "unit8"}}}), HasSubstr("uint8"));
  EXPECT_THAT(error({.columns = {{"x", "int"}, {"x", "str"}}}), HasSubstr("column `x` is given twice"));
  EXPECT_THAT(error({.columns = {{"x", "int"}}, .compression = "zip"}), HasSubstr("use br[:0-11]"));
  EXPECT_THAT(error({.columns = {{"x", "int"}}, .compression = "zstd:23"}), HasSubstr("zstd[:1-22]"));
  EXPECT_THAT(error({.columns = {{"x", "int"}}, .hashes = {"sha1", "md5"}}), HasSubstr("sorted"));
  EXPECT_THAT(error({.columns = {{"x", "int"}}, .hashes = {"crc"}}), HasSubstr("hash `crc` is not known"));
  EXPECT_THAT(error({.columns = {{"x", "int"}}, .size_limit = int64_t{1} << 32}), HasSubstr("from 1 to 4294967295"));
  const auto writer = MdsWriter::Create(store, {.columns = {{"n", "int"}, {"t", "str"}}}).value();
  EXPECT_THAT(writer->Write({"12345678"}).message(), HasSubstr("1 values, and the data set 2 columns"));
  EXPECT_THAT(writer->Write({"1234567", "a"}).message(), HasSubstr("column `n`: a value of encoding int has a wrong"));
  EXPECT_THAT(writer->Write({"12345678", "\xff"}).message(), HasSubstr("column `t`: a value of encoding str is not"));
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_THAT(error({.columns = {{"x", "int"}}}), HasSubstr("exists already"));
}

TEST(MdsIndex, RefusesHostileText) {
  const std::string good = ReadFile(JoinPath(kGoldens, "tiny/index.json")).value();
  const auto error = [&](absl::string_view from, absl::string_view to) {
    EXPECT_THAT(good, HasSubstr(from));
    return std::string(ParseMdsIndex(absl::StrReplaceAll(good, {{from, to}})).status().message());
  };
  EXPECT_THAT(error("\"str\"", "\"pkl\""), HasSubstr("shard 0: column `text`: encoding `pkl` is refused"));
  EXPECT_THAT(error("shard.00000.mds", "../../etc/passwd"), HasSubstr("leads out of its folder"));
  EXPECT_THAT(error("shard.00000.mds", "/etc/passwd"), HasSubstr("leads out of its folder"));
  EXPECT_THAT(error("\"version\": 2}", "\"version\": 3}"), HasSubstr("only 2 is known"));
  EXPECT_THAT(error("\"mds\"", "\"txt\""), HasSubstr("its format is `txt`"));
  EXPECT_THAT(error("[null]", "[7]"), HasSubstr("column_sizes does not fit"));
  EXPECT_THAT(error("[null]", "[]"), HasSubstr("no matching column_names"));
  EXPECT_THAT(error("\"samples\": 1", "\"samples\": -1"), HasSubstr("no number of samples"));
  EXPECT_THAT(error("\"bytes\": ", "\"bytes\": 9999999999999999"), HasSubstr("no basename and bytes"));
  EXPECT_THAT(ParseMdsIndex("{").status().message(), HasSubstr("not an index"));
  EXPECT_EQ(MdsIndexText(ParseMdsIndex(good).value()), good);
}

TEST(MdsIndex, MergesLikeThePackage) {
  const MdsIndex index = ReadMdsIndex(JoinPath(kGoldens, "tiny")).value();
  const auto merged = MergeMdsIndices({{"a", index}, {"b", index}});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->shards.size(), 2 * index.shards.size());
  EXPECT_EQ(merged->shards.back().raw.name, absl::StrCat("b/", index.shards.back().raw.name));
  EXPECT_FALSE(MergeMdsIndices({{"a", index}, {"a", index}}).ok());
  EXPECT_FALSE(MergeMdsIndices({{"..", index}}).ok());
}

TEST(MdsShard, FindsDamage) {
  const std::string folder = JoinPath(kGoldens, "shards");
  const MdsIndex index = ReadMdsIndex(folder).value();
  const MdsShardInfo& info = index.shards[0];
  const std::string good = ReadFile(JoinPath(folder, info.raw.name)).value();
  int refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {  // no flipped bit reads outside the shard (AddressSanitizer)
    auto bytes = std::make_shared<std::string>(good);
    (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 0x80);
    const auto shard = MdsShard::Open({bytes, *bytes}, info);
    std::vector<absl::string_view> columns(info.columns.size());
    bool bad = !shard.ok();
    for (int64_t i = 0; !bad && i < (*shard)->size(); ++i) bad = !(*shard)->Read(i, absl::MakeSpan(columns)).ok();
    refused += bad ? 1 : 0;
  }
  EXPECT_GT(refused, static_cast<int>(4 * (info.samples + 2)));  // each number of the head, at least
  for (const size_t size : {size_t{0}, size_t{4}, good.size() - 1}) {
    const std::string part = good.substr(0, size);
    EXPECT_TRUE(absl::IsDataLoss(MdsShard::Open({nullptr, part}, info).status()));
    MdsShardInfo shorter = info;
    shorter.raw.bytes = static_cast<int64_t>(size);
    EXPECT_TRUE(absl::IsDataLoss(MdsShard::Open({nullptr, part}, shorter).status()));
  }
}

TEST(MdsReader, ThreadsShareShardsAndFewStayOpen) {
  const std::string folder = JoinPath(kGoldens, "shards");
  MdsIndex index = ReadMdsIndex(folder).value();
  ASSERT_GE(index.shards.size(), 2);
  const auto reader = MdsReader::Create(index, LocalShards(folder), 1).value();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      MdsSample sample;
      for (int64_t i = 0; i < 400; ++i) good += reader->Read((i * (t + 3)) % reader->size(), sample).ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 1600);
  MdsSample sample;
  EXPECT_TRUE(absl::IsOutOfRange(reader->Read(reader->size(), sample)));
  EXPECT_TRUE(absl::IsOutOfRange(reader->Read(-1, sample)));
}

TEST(MdsEncoding, ReadsAndWritesArrays) {
  const MdsEncoding any = ParseMdsEncoding("ndarray").value();
  const std::string values(2 * 300 * 4, 'v');
  const std::string text = WriteArray(any, {MdsNumber::kFloat32, {2, 300}, values}).value();
  EXPECT_EQ(text.size(), 1 + 1 + 2 * 2 + values.size());
  const MdsArray array = ReadArray(any, text).value();
  EXPECT_EQ(NameOf(array.number), "float32");
  EXPECT_THAT(array.shape, ElementsAre(2, 300));
  EXPECT_EQ(array.values, values);
  for (size_t size = 0; size < 6; ++size) EXPECT_FALSE(ReadArray(any, absl::string_view(text).substr(0, size)).ok());
  // 2^63 * 2^63 values of no bytes, and a dimension of 0.
  EXPECT_FALSE(ReadArray(any, absl::StrCat("\x08\x0b", std::string(16, '\x80'))).ok());
  EXPECT_FALSE(ReadArray(any, std::string("\x08\x04\x00", 3)).ok());
  EXPECT_FALSE(ParseMdsEncoding("ndarray:float32:0").ok());
  EXPECT_FALSE(ParseMdsEncoding("ndarray:float32:99999999999,99999999999").ok());
  const MdsEncoding list = ParseMdsEncoding("list[png]").value();
  std::string pictures;
  for (const uint32_t number : {0U, 2U, 3U, 1U}) AppendNumber(number, pictures);
  pictures += "abcd";
  EXPECT_THAT(ReadElements(list, pictures).value(), ElementsAre("abc", "d"));
  EXPECT_FALSE(ReadElements(list, pictures + "e").ok());
  EXPECT_FALSE(ReadElements(list, absl::string_view(pictures).substr(0, 17)).ok());
}

TEST(Compression, EveryCodecGivesTheBytesBackAndFindsDamage) {
  std::string bytes;
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&bytes, i % 97, " ");
  for (const char* const name : {"br:4", "bz2", "gz", "gz:0", "snappy", "zstd", "zstd:9"}) {
    const Compression compression = ParseCompression(name).value();
    const auto compressed = Compress(compression, bytes);
    ASSERT_TRUE(compressed.ok()) << compressed.status();
    const auto size = static_cast<int64_t>(bytes.size());
    EXPECT_EQ(Decompress(compression.codec, *compressed, size).value(), bytes) << name;
    EXPECT_TRUE(absl::IsDataLoss(Decompress(compression.codec, *compressed, size - 1).status())) << name;
    EXPECT_TRUE(absl::IsDataLoss(Decompress(compression.codec, *compressed, size + 1).status())) << name;
    const absl::string_view half = absl::string_view(*compressed).substr(0, compressed->size() / 2);
    EXPECT_TRUE(absl::IsDataLoss(Decompress(compression.codec, half, size).status())) << name;
    EXPECT_TRUE(absl::IsDataLoss(Decompress(compression.codec, "", size).status())) << name;
    EXPECT_EQ(Decompress(compression.codec, Compress(compression, "").value(), 0).value(), "") << name;
  }
}

}  // namespace
}  // namespace composer

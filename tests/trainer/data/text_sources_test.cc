// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/text_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/file.h"
#include "data/text/npy.h"
#include "data/text/record_files.h"
#include "tests/support/temp_dir.h"
#include "trainer/data/token_files.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataFiles : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = JoinPath(folder_.path(), name);
    EXPECT_TRUE(AtomicWriteFile(path, content).ok());
    return path;
  }
  static std::string ErrorOf(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  }
  TempDir folder_;
};

TEST_F(DataFiles, JsonLinesGiveTextsAndTensors) {
  const std::string path =
      Write("a.jsonl",
            "{\"text\": \"h\\u00e9\", \"label\": 3, \"score\": 0.5, \"ids\": [1, 2], \"no\": null}\r\n"
            "\n"
            "{\"text\": \"\", \"label\": true, \"score\": 2.0, \"ids\": [1, 0.5], \"chat\": [{\"a\": 1}]}");
  const auto source = *OpenJsonLines({path});
  ASSERT_EQ(source->size(), 2) << "an empty line is not a sample";
  const Sample first = source->Get(0), second = source->Get(1);
  EXPECT_EQ(first.texts.at("text"), "h\xc3\xa9");
  EXPECT_EQ(first.tensors.at("label").item<int64_t>(), 3);
  EXPECT_EQ(first.tensors.at("score").scalar_type(), at::kFloat);
  EXPECT_EQ(first.tensors.at("ids").scalar_type(), at::kLong);
  EXPECT_EQ(first.tensors.count("no") + first.texts.count("no"), 0u);
  EXPECT_EQ(second.tensors.at("label").item<int64_t>(), 1);
  EXPECT_EQ(second.tensors.at("ids").scalar_type(), at::kFloat);
  EXPECT_EQ(second.texts.at("chat"), "[{\"a\":1}]");
}

TEST_F(DataFiles, ALineThatIsNotAnObjectIsNamed) {
  const std::string path = Write("a.jsonl", "{}\n[1]\n");
  EXPECT_THAT(ErrorOf([&] { (*OpenJsonLines({path}))->Get(1); }),
              HasSubstr(path + ", at byte 3: this line is not a JSON object: `[1]`"));
}

TEST_F(DataFiles, CsvFollowsRfc4180) {
  const std::string path = Write("a.csv", "\xef\xbb\xbfname,x,y,class\r\n\"a, \"\"b\"\"\n2\",1,2.5,7\r\nplain,3,4,8\n");
  const auto source = *OpenCsv({.paths = {path}, .features = {"x", "y"}, .target = "class"});
  ASSERT_EQ(source->size(), 2);
  const Sample first = source->Get(0);
  EXPECT_EQ(first.texts.at("name"), "a, \"b\"\n2");
  EXPECT_TRUE(at::equal(first.tensors.at("inputs"), torch::tensor({1.0f, 2.5f})));
  EXPECT_EQ(first.tensors.at("targets").item<int64_t>(), 7);
  EXPECT_EQ(source->Get(1).texts.size(), 1u);
}

TEST_F(DataFiles, CsvErrorsNameColumnAndRecord) {
  const std::string path = Write("a.csv", "x,class\n1,2\nred,3\n1\n4,4.5\n");
  EXPECT_THAT(OpenCsv({.paths = {path}, .features = {"z"}}).status().message(),
              HasSubstr("there is no column `z`; there are x, class"));
  const auto source = *OpenCsv({.paths = {path}, .features = {"x"}, .target = "class"});
  EXPECT_THAT(ErrorOf([&] { source->Get(1); }), HasSubstr("column `x` holds `red`, which is not a number"));
  EXPECT_THAT(ErrorOf([&] { source->Get(2); }), HasSubstr("this record has 1 fields; the first line names 2"));
  EXPECT_THAT(ErrorOf([&] { source->Get(3); }), HasSubstr("column `class` holds `4.5`, which is not a whole number"));
  const std::string open = Write("b.csv", "x\n\"1\n");
  EXPECT_THAT(OpenCsv({.paths = {open}}).status().message(), HasSubstr("a quote is not closed"));
  const std::string other = Write("c.csv", "y\n1\n");
  EXPECT_THAT(OpenCsv({.paths = {path, other}}).status().message(), HasSubstr("differs from that of"));
}

TEST_F(DataFiles, PathsAreFilesFoldersAndGlobs) {
  Write("a.txt", "one\ntwo\n");
  Write("b.txt", "three");
  Write(".hidden", "no");
  const std::string folder(folder_.path());
  EXPECT_EQ((*OpenTexts({folder}, TextUnit::kLine))->size(), 3);
  EXPECT_EQ((*OpenTexts({folder + "/*.txt"}, TextUnit::kFile))->Get(0).texts.at("text"), "one\ntwo\n");
  EXPECT_EQ((*OpenTexts({folder + "/b.txt", folder + "/a.txt"}, TextUnit::kLine))->Get(0).texts.at("text"), "three");
  EXPECT_TRUE(absl::IsNotFound(OpenTexts({folder + "/*.json"}, TextUnit::kLine).status()));
}

std::string Bytes(const std::vector<uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size()};
}

std::string Npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
}

TEST_F(DataFiles, TokensOfSeveralFilesDoNotMix) {
  const std::string a = Write("a.bin", Bytes({1, 2, 3, 4, 5, 6}));
  const std::string b =
      Write("b.npy", Npy("{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }\n", Bytes({7, 8, 9})));
  const std::string too_short = Write("c.bin", Bytes({1, 2}));
  const auto data = *OpenTokenFiles({.paths = {a, too_short, b}, .max_seq_len = 2});
  ASSERT_EQ(data->size(), 3);
  const Batch batch = data->Load({0, 1, 2});
  EXPECT_TRUE(at::equal(batch.inputs, torch::tensor({1, 2, 3, 4, 7, 8}, at::kLong).view({3, 2})));
  EXPECT_TRUE(at::equal(batch.targets, torch::tensor({2, 3, 4, 5, 8, 9}, at::kLong).view({3, 2})));
  EXPECT_EQ(batch.num_tokens, 6);
  data->WillLoad(0, {0, 2});
  EXPECT_EQ(data->Load({}).inputs.sizes(), (at::IntArrayRef{0, 2}));
}

TEST_F(DataFiles, ATokenOutsideOfTheVocabularyIsRefusedAtOnce) {
  const std::string path = Write("a.bin", Bytes({1, 2, 300}));
  EXPECT_THAT(OpenTokenFiles({.paths = {path}, .max_seq_len = 2, .vocab_size = 300}).status().message(),
              HasSubstr("a.bin: token 2 is 300, but the vocabulary has 300 tokens"));
  EXPECT_TRUE(OpenTokenFiles({.paths = {path}, .max_seq_len = 2, .vocab_size = 301}).ok());
  const std::string floats =
      Write("f.npy", Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", std::string(12, ' ')));
  EXPECT_THAT(OpenTokenFiles({.paths = {floats}, .max_seq_len = 2}).status().message(),
              HasSubstr("f.npy: the array is of <f4; tokens are"));
  EXPECT_THAT(OpenTokenFiles({.paths = {path}, .max_seq_len = 3}).status().message(),
              HasSubstr("4 tokens of one sample"));
}

TEST(ReadNpyHeader, DamagedAndForeignArraysAreRefused) {
  const std::string data(64, '\0');
  const auto error = [&](const std::string& header) {
    return std::string(ReadNpyHeader(Npy(header, data)).status().message());
  };
  EXPECT_EQ(error("{'descr': '<i8', 'fortran_order': False, 'shape': (4, 2), }"), "");
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"), "");
  EXPECT_THAT(error("{'descr': '<c8', 'fortran_order': False, 'shape': (4,), }"), HasSubstr("the array is of '<c8'"));
  EXPECT_THAT(error("{'descr': '>i8', 'fortran_order': False, 'shape': (4,), }"), HasSubstr("little-endian"));
  EXPECT_THAT(error("{'descr': '<i8', 'fortran_order': True, 'shape': (4,), }"), HasSubstr("Fortran order"));
  EXPECT_THAT(error("{'descr': '<i8', 'fortran_order': False, 'shape': (9,), }"), HasSubstr("shorter than the shape"));
  EXPECT_THAT(error("{'descr': '<i8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
              HasSubstr("shorter than the shape"));
  EXPECT_THAT(error("{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }"), HasSubstr("no shape"));
  EXPECT_THAT(error("{'descr': '<i8', 'fortran_order': False}"), HasSubstr("no shape"));
  const std::string good = Npy("{'descr': '<i8', 'fortran_order': False, 'shape': (8,), }", data);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(ReadNpyHeader(absl::string_view(good).substr(0, length)).ok()) << length;
}

}  // namespace
}  // namespace composer

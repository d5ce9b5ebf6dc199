// Tests with files written by torch 2.11, the safetensors package and the Python Composer
// (tools/make_weights_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string Golden(const std::string& name) { return absl::StrCat(COMPOSER_SOURCE_DIR "/tests/golden/weights/", name); }

nlohmann::json Values(const std::string& name) {
  return nlohmann::json::parse(*ReadFile(Golden("values.json")))["files"][name];
}

std::string TypeName(at::ScalarType type) {
  const std::map<at::ScalarType, std::string> names = {{at::kFloat, "float32"},
                                                       {at::kDouble, "float64"},
                                                       {at::kHalf, "float16"},
                                                       {at::kBFloat16, "bfloat16"},
                                                       {at::kLong, "int64"},
                                                       {at::kInt, "int32"},
                                                       {at::kShort, "int16"},
                                                       {at::kChar, "int8"},
                                                       {at::kByte, "uint8"},
                                                       {at::kUInt16, "uint16"},
                                                       {at::kUInt32, "uint32"},
                                                       {at::kBool, "bool"},
                                                       {at::kFloat8_e4m3fn, "float8_e4m3fn"},
                                                       {at::kFloat8_e5m2, "float8_e5m2"}};
  return names.at(type);
}

// Regression test for L6: a name that prints as `a` but compares as another name.
TEST(WeightFiles, ANameWithNulIsRefused) {
  TempDir dir;
  const std::string header = R"({"a\u0000b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("x.safetensors"), file + header + std::string(4, '\0')).ok());
  const auto weights = ReadWeights(dir.Path("x.safetensors"), "");
  EXPECT_EQ(weights.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(weights.status().message()), HasSubstr("`a\\x00b`"));
}

class WeightFile : public testing::TestWithParam<const char*> {};

TEST_P(WeightFile, HoldsWhatItsWriterPutIn) {
  const auto weights = ReadWeights(Golden(GetParam()), "");
  ASSERT_TRUE(weights.ok()) << weights.status();
  const nlohmann::json expected = Values(GetParam());
  EXPECT_EQ(weights->tensors.size(), expected.size());
  for (const auto& [name, tensor] : weights->tensors) {
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(TypeName(tensor.scalar_type()), expected[name]["dtype"].get<std::string>()) << name;
    EXPECT_EQ(tensor.sizes().vec(), expected[name]["shape"].get<std::vector<int64_t>>()) << name;
    const at::Tensor values = tensor.contiguous().to(at::kDouble).flatten();
    const auto numbers = expected[name]["values"].get<std::vector<double>>();
    EXPECT_TRUE(torch::equal(values, torch::tensor(numbers, at::kDouble))) << name << values;
  }
}
INSTANTIATE_TEST_SUITE_P(Goldens, WeightFile,
                         testing::Values("state_dict.pt", "protocol5.pt", "every_dtype.pt", "shared.pt", "nested.pt",
                                         "composer.pt", "every_dtype.safetensors", "split", "dcp", "dcp3", "dcp_top"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(WeightFiles, SaysWhereTheTensorsWereAndWhatItPassedOver) {
  EXPECT_THAT(ReadWeights(Golden("composer.pt"), "")->notes, Contains("tensors of `state/model`"));
  EXPECT_THAT(ReadWeights(Golden("shared.pt"), "")->notes, Contains("not a tensor, skipped: steps (a number)"));
  EXPECT_EQ(ReadWeights(Golden("nested.pt"), "state_dict")->tensors.size(), 7u);
  EXPECT_THAT(
      std::string(ReadWeights(Golden("nested.pt"), "model").status().message()),
      HasSubstr("there is no member `model` in ``: it has epoch (a number), state_dict (a dict), optimizer (a dict)"));
  EXPECT_THAT(std::string(ReadWeights(Golden("nested.pt"), "optimizer").status().message()),
              HasSubstr("no tensors in `optimizer`"));
}

TEST(WeightFiles, TiedWeightsShareTheirMemory) {
  const ImportedWeights weights = *ReadWeights(Golden("shared.pt"), "");
  EXPECT_EQ(weights.tensors[0].second.storage().data(), weights.tensors[1].second.storage().data());
}

TEST(WeightFiles, WhatIsNotReadIsRefusedByName) {
  const struct {
    const char* file;
    const char* reason;
  } rows[] = {{"sparse.pt", "`a`: it is torch._utils._rebuild_sparse_tensor, which is not read"},
              {"surprise.pt", "`b`: it is posix.system, which is not read"},
              {"expanded.pt", "`a`: it is an expanded view"},
              {"module.pt", "its top is torch.nn.modules.linear.Linear, no dict of tensors"},
              {"list.pt", "its top is a list, no dict of tensors"},
              {"complex128.pt", "`a`: it is of type torch.ComplexDoubleStorage"},
              {"legacy.pt", "from before torch 1.6"},
              {"compressed.pt", "is compressed or encrypted"},
              {"../torchscript/classifier.pt", "TorchScript"},
              {"values.json", "header"},
              {"nowhere.pt", "nowhere.pt: No such file"}};
  for (const auto& row : rows) {
    const auto weights = ReadWeights(Golden(row.file), "");
    EXPECT_THAT(std::string(weights.status().message()), testing::AllOf(HasSubstr(row.file), HasSubstr(row.reason)));
  }
  EXPECT_FALSE(PathExists("/tmp/composer_was_here"));
}

TEST(WeightFiles, AFolderIsItsIndexOrItsOnlyFile) {
  TempDir dir;
  EXPECT_THAT(std::string(ReadWeights(dir.path(), "").status().message()), HasSubstr("has no .safetensors"));
  const std::string file = *ReadFile(Golden("every_dtype.safetensors"));
  ASSERT_TRUE(AtomicWriteFile(dir.Path("x.safetensors"), file).ok());
  EXPECT_TRUE(ReadWeights(dir.path(), "").ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("y.safetensors"), file).ok());
  EXPECT_THAT(std::string(ReadWeights(dir.path(), "").status().message()),
              HasSubstr("several files of weights, name one: "));
  ASSERT_TRUE(AtomicWriteFile(dir.Path("model.safetensors.index.json"),
                              R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})")
                  .ok());
  EXPECT_THAT(std::string(ReadWeights(dir.path(), "").status().message()), HasSubstr("is in two files"));
}

// torch's own loader accepts most flipped bits of the tensors' bytes (docs/results/damage.md).
TEST(WeightFiles, EveryFlippedBitOfTheTensorsInATorchSaveFileIsFound) {
  TempDir dir;
  const std::string content = *ReadFile(Golden("state_dict.pt"));
  const at::Tensor weight = ReadWeights(Golden("state_dict.pt"), "")->tensors[0].second;
  const std::string bytes(static_cast<const char*>(weight.const_data_ptr()), weight.nbytes());
  const size_t begin = content.find(bytes);
  ASSERT_NE(begin, std::string::npos);
  for (size_t bit = begin * 8; bit < (begin + bytes.size()) * 8; ++bit) {
    std::string flipped = content;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(AtomicWriteFile(dir.Path("x.pt"), flipped).ok());
    EXPECT_THAT(std::string(ReadWeights(dir.Path("x.pt"), "").status().message()),
                HasSubstr("checksum mismatch of record data/0"));
  }
}

TEST(WeightFiles, EveryTruncationIsFound) {
  TempDir dir;
  for (const char* name : {"state_dict.pt", "every_dtype.safetensors"}) {
    const std::string content = *ReadFile(Golden(name));
    for (size_t size = 0; size < content.size(); size += 7) {
      ASSERT_TRUE(AtomicWriteFile(dir.Path("x.pt"), content.substr(0, size)).ok());
      EXPECT_FALSE(ReadWeights(dir.Path("x.pt"), "").ok()) << name << " " << size;
    }
  }
}

}  // namespace
}  // namespace composer

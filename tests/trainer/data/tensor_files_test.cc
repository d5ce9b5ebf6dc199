// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/tensor_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/file.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/safetensors.h"
#include "data/text/npy.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

std::string BytesOfTensor(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class TensorFilesTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    EXPECT_TRUE(AtomicWriteFile(folder_.Path(name), content).ok());
    return folder_.Path(name);
  }
  std::string WriteSafetensors(const std::string& name, const Tensors& tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [key, tensor] : tensors)
      entries.push_back(
          {.name = key, .dtype = std::string(DTypeName(tensor.scalar_type())), .shape = tensor.sizes().vec()});
    std::string file = *LayOutSafetensors(&entries);
    for (const SafetensorsEntry& entry : entries) {
      for (const auto& [key, tensor] : tensors) {
        if (key == entry.name) file += BytesOfTensor(tensor);
      }
    }
    return Write(name, file);
  }
  std::string WriteNpy(const std::string& name, const std::string& type, const std::string& shape,
                       const std::string& data) {
    const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    return Write(name, std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data);
  }
  std::string Error(const std::vector<std::string>& paths) {
    return std::string(OpenTensorFiles(paths).status().message());
  }
  TempDir folder_;
};

TEST_F(TensorFilesTest, SafetensorsFollowEachOtherAndRowsAreSamples) {
  const at::Tensor x = torch::rand({5, 2, 3}), y = torch::arange(5).to(at::kInt);
  const std::string a =
      WriteSafetensors("a.safetensors", {{"x", x.slice(0, 0, 3).contiguous()}, {"y", y.slice(0, 0, 3)}});
  const std::string none = WriteSafetensors("b.safetensors", {{"x", x.slice(0, 0, 0)}, {"y", y.slice(0, 0, 0)}});
  const std::string c =
      WriteSafetensors("c.safetensors", {{"x", x.slice(0, 3).contiguous()}, {"y", y.slice(0, 3).clone()}});
  const auto source = *OpenTensorFiles({folder_.Path("*.safetensors")});
  ASSERT_EQ(source->size(), 5);
  for (int64_t i = 0; i < 5; ++i) {
    const Sample sample = source->Get(i);
    EXPECT_TRUE(at::equal(sample.tensors.at("x"), x[i]));
    EXPECT_EQ(sample.tensors.at("y").scalar_type(), at::kLong);
    EXPECT_EQ(sample.tensors.at("y").item<int64_t>(), i);
  }
  EXPECT_THROW(source->Get(5), c10::IndexError);
  EXPECT_THROW(source->Get(-1), c10::IndexError);
}

TEST_F(TensorFilesTest, ValuesBecomeWhatModelsTake) {
  const Tensors all = {
      {"half", torch::rand({2, 3}).to(at::kHalf)},           {"bf16", torch::rand({2}).to(at::kBFloat16)},
      {"double", torch::rand({2}).to(at::kDouble)},          {"picture", torch::full({2, 1, 2}, 200, at::kByte)},
      {"label", torch::full({2}, 200, at::kByte)},           {"truth", torch::ones({2, 4}, at::kBool)},
      {"tokens", torch::full({2, 3}, 65535).to(at::kUInt16)}};
  const Sample sample = (*OpenTensorFiles({WriteSafetensors("all.safetensors", all)}))->Get(1);
  for (const char* key : {"half", "bf16", "double"}) EXPECT_EQ(sample.tensors.at(key).scalar_type(), at::kFloat) << key;
  for (const char* key : {"label", "truth", "tokens"})
    EXPECT_EQ(sample.tensors.at(key).scalar_type(), at::kLong) << key;
  EXPECT_EQ(sample.tensors.at("picture").scalar_type(), at::kByte);
  EXPECT_TRUE(at::equal(sample.tensors.at("half"), all[0].second[1].to(at::kFloat)));
  EXPECT_EQ(sample.tensors.at("label").item<int64_t>(), 200);
  EXPECT_TRUE(at::equal(sample.tensors.at("tokens"), torch::full({3}, 65535, at::kLong)));
}

TEST_F(TensorFilesTest, ArraysStandBesideEachOther) {
  const at::Tensor x = torch::rand({4, 2}, at::kDouble), y = torch::arange(4).to(at::kShort);
  const std::vector<std::string> paths = {WriteNpy("inputs.npy", "<f8", "(4, 2)", BytesOfTensor(x)),
                                          WriteNpy("targets.npy", "<i2", "(4,)", BytesOfTensor(y))};
  const auto source = *OpenTensorFiles(paths);
  ASSERT_EQ(source->size(), 4);
  EXPECT_TRUE(at::equal(source->Get(3).tensors.at("inputs"), x[3].to(at::kFloat)));
  EXPECT_EQ(source->Get(3).tensors.at("targets").item<int64_t>(), 3);
}

TEST_F(TensorFilesTest, EveryTypeOfNumPyIsRead) {
  for (const absl::string_view type : kNpyTypes) {
    const size_t width = static_cast<size_t>(type[2] - '0');
    const auto source = OpenTensorFiles({WriteNpy("x.npy", std::string(type), "(2, 3)", std::string(6 * width, '\0'))});
    ASSERT_TRUE(source.ok()) << type << ": " << source.status();
    EXPECT_EQ((*source)->Get(1).tensors.at("x").to(at::kFloat).sum().item<float>(), 0) << type;
  }
}

TEST_F(TensorFilesTest, MistakesAreNamed) {
  const std::string good = WriteSafetensors("good.safetensors", {{"x", torch::rand({3, 2})}, {"y", torch::rand({3})}});
  EXPECT_THAT(Error({WriteSafetensors("rows.safetensors", {{"x", torch::rand({3})}, {"y", torch::rand({4})}})}),
              HasSubstr("rows.safetensors: `y` has 4 rows, but `x` has 3"));
  EXPECT_THAT(Error({WriteSafetensors("one.safetensors", {{"x", torch::tensor(1.0F)}})}), HasSubstr("single number"));
  EXPECT_THAT(Error({WriteSafetensors("c.safetensors", {{"x", torch::zeros({2}, at::kComplexFloat)}})}),
              HasSubstr("complex"));
  EXPECT_THAT(Error({good, WriteSafetensors("keys.safetensors", {{"x", torch::rand({3, 2})}})}),
              HasSubstr("keys.safetensors has the keys x, but "));
  EXPECT_THAT(Error({good, WriteSafetensors("s.safetensors", {{"x", torch::rand({3, 5})}, {"y", torch::rand({3})}})}),
              HasSubstr("s.safetensors: `x` has other shapes"));
  const std::string npy = WriteNpy("x.npy", "<f4", "(2,)", std::string(8, '\0'));
  EXPECT_THAT(Error({npy, good}), HasSubstr("the first one ends in .npy"));
  EXPECT_THAT(Error({good, npy}), HasSubstr("x.npy: files of tensors end in .safetensors, or all in .npy"));
  EXPECT_THAT(Error({npy, npy}), HasSubstr("`x` comes from two files"));
  EXPECT_THAT(Error({WriteNpy("none.npy", "<f4", "(0, 3)", "")}), HasSubstr("no samples"));
  EXPECT_THAT(Error({Write("short.npy", "NUMPY")}), HasSubstr("short.npy: this is not a .npy file"));
  const std::string file = *ReadFile(good);
  for (size_t length = 0; length < file.size(); length += 7)
    EXPECT_FALSE(OpenTensorFiles({Write("cut.safetensors", file.substr(0, length))}).ok()) << length;
  EXPECT_TRUE(absl::IsNotFound(OpenTensorFiles({folder_.Path("nothing.npy")}).status()));
}

}  // namespace
}  // namespace composer

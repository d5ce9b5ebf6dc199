// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/fashion_mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

std::string Header(std::vector<uint32_t> shape, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(shape.size())};
  for (uint32_t size : shape) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(size >> shift & 0xff);
  }
  return bytes;
}

TEST(ParseIdx, ReadsShapeAndBytes) {
  const absl::StatusOr<IdxArray> array = ParseIdx(Header({2, 3}) + "abcdef", "x");
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array->bytes, "abcdef");
}

TEST(ParseIdx, RefusesHostileInput) {
  const struct {
    std::string content;
    const char* message;
  } kCases[] = {{"", "too short"},
                {"abc", "too short"},
                {"\x1f\x8b\x08\x03xxxx", "not an IDX file"},
                {Header({1}, 9) + "x", "not an IDX file"},
                {Header({}), "0 dimensions"},
                {Header({1, 1, 1, 1, 1}) + "x", "5 dimensions"},
                {Header({7}).substr(0, 6), "cut off within the header"},
                {Header({7}) + "abc", "has 3 bytes of data, its sizes 7 need 7"},
                {Header({2}) + "abc", "has 3 bytes of data"},
                {Header({0xffffffff, 0xffffffff, 0xffffffff}), "overflow"}};
  for (const auto& c : kCases) {
    const absl::Status status = ParseIdx(c.content, "file.gz").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("file.gz: "));
  }
}

class FashionMnistFolder : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const Dataset>> Load(const std::string& images, const std::string& labels) {
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("train-images-idx3-ubyte"), images).ok());
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("train-labels-idx1-ubyte"), labels).ok());
    return LoadFashionMnist(dir_.path(), DataSplit::kTrain);
  }
  TempDir dir_;
};

TEST_F(FashionMnistFolder, GivesNormalisedImages) {
  const auto data =
      Load(Header({2, 28, 28}) + std::string(784, '\0') + std::string(784, '\xff'), Header({2}) + "\x03\x09");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 2);
  const Batch batch = (*data)->Load({1, 0, 1});
  EXPECT_EQ(batch.num_samples, 3);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{3, 1, 28, 28}));
  EXPECT_TRUE(torch::allclose(batch.inputs[0], torch::full({1, 28, 28}, (1 - 0.2860) / 0.3530)));
  EXPECT_TRUE(torch::allclose(batch.inputs[1], torch::full({1, 28, 28}, -0.2860 / 0.3530)));
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({9, 3, 9}, torch::kInt64)));
  const Batch none = (*data)->Load({});
  EXPECT_EQ(none.inputs.sizes(), (std::vector<int64_t>{0, 1, 28, 28}));
  EXPECT_EQ(none.targets.scalar_type(), torch::kInt64);
  EXPECT_THROW((*data)->Load({2}), c10::IndexError);
}

TEST_F(FashionMnistFolder, RefusesWhatDoesNotFit) {
  const std::string image(784, '\0');
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  EXPECT_THAT(message(Load(Header({1, 28, 27}) + std::string(28 * 27, 'x'), Header({1}) + "\x01").status()),
              HasSubstr("expected Nx28x28"));
  EXPECT_THAT(message(Load(Header({1, 28, 28}) + image, Header({2}) + "\x01\x02").status()),
              HasSubstr("1 images but 2 labels"));
  EXPECT_THAT(message(Load(Header({1, 28, 28}) + image, Header({1}) + "\x0a").status()), HasSubstr("label 0 is 10"));
  const absl::Status missing = LoadFashionMnist(dir_.path(), DataSplit::kEval).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message(missing), HasSubstr("dataset-fashion-mnist"));
}

TEST(FashionMnist, TheRealDataIsWhatThePaperSays) {
  if (!PathExists(kFashionMnistFolder)) GTEST_SKIP() << "the package dataset-fashion-mnist is not installed";
  const auto data = LoadFashionMnist(kFashionMnistFolder, DataSplit::kEval);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ((*data)->size(), 10000);
  std::vector<int64_t> all(10000);
  for (int64_t i = 0; i < 10000; ++i) all[i] = i;
  const Batch batch = (*data)->Load(all);
  EXPECT_TRUE(torch::equal(batch.targets.bincount(), torch::full({10}, 1000, torch::kInt64)));
  EXPECT_NEAR(batch.inputs.mean().item<double>(), 0, 0.01);
  EXPECT_NEAR(batch.inputs.std().item<double>(), 1, 0.01);
}

}  // namespace
}  // namespace composer

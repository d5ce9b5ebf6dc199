// SPDX-License-Identifier: Apache-2.0
#include "job/run/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "data/mds/writer.h"
#include "storage/local_store.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

class ValidateTest : public ::testing::Test {
 protected:
  std::string Validate(const std::string& text) {
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("t.yaml"), text).ok());
    JobSource source;
    source.yaml_path = dir_.Path("t.yaml");
    const absl::StatusOr<std::string> found = ValidateJob(source, Environment());
    if (!found.ok()) EXPECT_THAT(std::string(found.status().message()), HasSubstr("t.yaml:")) << "the place";
    return found.ok() ? *found : std::string(found.status().message());
  }
  std::string Text() {
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("text.txt"), std::string(2000, 't')).ok());
    return dir_.Path("text.txt");
  }
  TempDir dir_;
};

constexpr char kLength[] = "global_train_batch_size: 8\nmax_duration: 10ba\n";

TEST_F(ValidateTest, SaysWhatItFound) {
  EXPECT_THAT(
      Validate(absl::StrCat("model: {name: mlp}\ntrain_dataloader: {name: gaussian_classification}\n", kLength)),
      HasSubstr("4096 samples, 512 batches an epoch, 8970 parameters"));
}

TEST_F(ValidateTest, DataAndModelMustFit) {
  const auto mlp = [&](const char* sizes) {
    return Validate(absl::StrCat("model:\n  name: mlp\n  sizes: ", sizes,
                                 "\ntrain_dataloader: {name: gaussian_classification}\n", kLength));
  };
  EXPECT_THAT(mlp("[63, 10]"), HasSubstr("t.yaml:3:10: model.sizes: begins with 63, but a sample has 64 features"));
  EXPECT_THAT(mlp("[64, 2]"), HasSubstr("model: it has 2 classes, but a label is "));
  const auto gpt = [&](const char* keys) {
    return Validate(absl::StrCat("model: {name: gpt, n_layers: 1, d_model: 16, ", keys,
                                 "}\ntrain_dataloader: {name: text_bytes, path: ", Text(), "}\n", kLength));
  };
  EXPECT_THAT(gpt("vocab_size: 50"), HasSubstr("model.vocab_size: token 116 >= vocab_size 50"));
  EXPECT_THAT(gpt("max_seq_len: 64"), HasSubstr("model.max_seq_len: the model takes 64 tokens, but a sample has 128"));
  EXPECT_THAT(gpt("dropout: 0"), HasSubstr("parameters"));
}

TEST_F(ValidateTest, OpensTheData) {
  const std::string error = Validate(
      absl::StrCat("model: {name: gpt}\ntrain_dataloader:\n  name: text_bytes\n  path: nosuch.txt\n", kLength));
  EXPECT_THAT(error, HasSubstr("t.yaml:4:9: train_dataloader.path: "));
  EXPECT_THAT(error, HasSubstr("nosuch.txt"));
}

TEST_F(ValidateTest, ChecksSchedulesAgainstTheLengthOfTheRun) {
  EXPECT_THAT(Validate("model: {name: mlp}\ntrain_dataloader: {name: "
                       "gaussian_classification}\nglobal_train_batch_size: 8\nmax_duration: 2ep\n"
                       "schedulers: {name: cosine_annealing_with_warmup, t_warmup: 1ba, t_max: 5ba}\n"),
              HasSubstr("schedulers: "));
}

// 64 stored samples with three tokens each, of which an epoch draws 10.
TEST_F(ValidateTest, CountsTheBatchesThatTheOrderOfShardsServes) {
  MdsWriterOptions options;
  options.columns = {{"tokens", "ndarray:int64:3"}};
  const auto writer = MdsWriter::Create(std::make_shared<LocalStore>(dir_.Path("shards")), options).value();
  const int64_t tokens[] = {1, 2, 3};
  const absl::string_view row(reinterpret_cast<const char*>(tokens), sizeof tokens);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(writer->Write({row}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto validate = [&](const char* weight, const char* length) {
    return Validate(absl::StrCat(
        "model: {name: gpt, n_layers: 1, d_model: 16}\ntrain_dataloader: {name: streaming, streams: [{local: ",
        dir_.Path("shards"), ", ", weight,
        "}], transforms: [{rename: {from: tokens, to: inputs}}, shift]}\nglobal_train_batch_size: 8\nmax_duration: ",
        length, "\nschedulers: {name: cosine_annealing_with_warmup, t_warmup: 1ba, t_max: 5ba}\n"));
  };
  EXPECT_THAT(validate("choose: 10", "2ep"), HasSubstr("64 samples, 2 batches an epoch"));
  EXPECT_THAT(validate("choose: 40", "1ep"), HasSubstr("64 samples, 5 batches an epoch"));
  EXPECT_THAT(validate("repeat: 2", "1ep"), HasSubstr("schedulers: ")) << "t_max ends before the 16 batches";
}

TEST_F(ValidateTest, AModelThatIsTooLargeToTryIsOnlyBuilt) {
  EXPECT_THAT(Validate(absl::StrCat(
                  "model: {name: mlp, sizes: [64, 16000000, 10]}\ntrain_dataloader: {name: gaussian_classification}\n",
                  kLength)),
              HasSubstr("shapes were not tried: its parameters take"));
}

}  // namespace
}  // namespace composer

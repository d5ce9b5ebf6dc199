// Files for the Python Composer, read back by the reader that tests/trainer/loop/from_python_composer_test.cc holds to
// Composer's own files. tests/integration/to_python_composer_test.py gives them to Composer itself.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/composer_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/save/saver.h"
#include "checkpoint/tools/composer_import.h"
#include "checkpoint/tools/weight_files.h"
#include "checkpoint/torch_files/composer_pickle.h"
#include "checkpoint/torch_files/torch_save.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/tools/saved_run.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ComposerExport : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Write(const StateDict& state, const ComposerExportOptions& options = {}) {
    MemoryStore store;
    EXPECT_TRUE(Saver(store, RankExchange(), {.run_name = "r"}).Save(state, {1, 7}, 70).ok());
    return ExportForComposer(store, "ep1-ba7", path_, options);
  }
  std::map<std::string, at::Tensor> Weights() {
    const auto weights = ReadWeights(path_, "");
    EXPECT_TRUE(weights.ok()) << weights.status();
    std::map<std::string, at::Tensor> tensors;
    if (weights.ok()) tensors.insert(weights->tensors.begin(), weights->tensors.end());
    return tensors;
  }

  TempDir dir_;
  const std::string path_ = dir_.Path("x.pt");
};

TEST_F(ComposerExport, IsReadBackBitForBit) {
  const StateDict state = SavedRun("DecoupledAdamW");
  const auto notes = Write(state, {.renames = {{"", "module."}}});
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, ElementsAre("the state of the algorithm EMA was left out"));
  const auto weights = Weights();
  EXPECT_EQ(weights.size(), 4u);
  std::vector<std::pair<std::string, at::Tensor>> model(weights.begin(), weights.end());
  const auto progress = ReadComposerProgress(path_, model, {{"module.", ""}});
  ASSERT_TRUE(progress.ok() && progress->has_value()) << progress.status();
  std::map<std::string, at::Tensor> read((*progress)->state.tensors.begin(), (*progress)->state.tensors.end());
  for (const auto& [name, tensor] : weights) read["model/" + name.substr(7)] = tensor;
  ASSERT_EQ(read.size(), state.tensors.size());
  for (const auto& [name, tensor] : state.tensors) {
    EXPECT_EQ(read[name].scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(read[name], tensor)) << name;
  }
  EXPECT_EQ(nlohmann::json::parse((*progress)->state.small.at("timestamp")), nlohmann::json::parse(kSavedTime));
  EXPECT_EQ(nlohmann::json::parse((*progress)->state.small.at("scaler"))["scale"], 1024.0);
  EXPECT_EQ((*progress)->samples, 70);
  const auto file = TorchSave::Open(*MappedFile::Open(path_));
  const auto groups = (**ReadComposerPickle(file->pickle())).groups;
  EXPECT_THAT(groups, ElementsAre(ElementsAre("module.fc.weight"), ElementsAre("module.fc.bias")));
}

TEST_F(ComposerExport, WeightsOnly) {
  const auto notes = Write(SavedRun("Muon"), {.weights_only = true, .dtype = at::kHalf});
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, IsEmpty());
  auto weights = Weights();
  EXPECT_EQ(weights["fc.weight"].scalar_type(), at::kHalf);
  EXPECT_EQ(weights["steps"].item<int64_t>(), 7);
  const auto progress = ReadComposerProgress(path_, {}, {});
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_FALSE(progress->has_value());
}

TEST_F(ComposerExport, WhatItCannotWriteIsRefusedAndNothingIsThere) {
  EXPECT_THAT(std::string(Write(SavedRun("Muon")).status().message()), HasSubstr("the optimizer Muon is not written"));
  StateDict old = SavedRun("Adam");
  old.small.erase("optimizer");
  EXPECT_THAT(std::string(Write(old).status().message()), HasSubstr("does not say which optimizer"));
  StateDict wrong = SavedRun("Adam");
  wrong.tensors.back().second = torch::tensor({5.0F, 6.0F});
  EXPECT_EQ(Write(wrong).status().code(), absl::StatusCode::kDataLoss);
  StateDict damaged = SavedRun("Adam");
  damaged.small["optimizer"] = R"({"class":1})";
  EXPECT_EQ(Write(damaged).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Write(SavedRun("Adam"), {.renames = {{"x.", "y."}}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(*ListDir(dir_.path()), IsEmpty());
}

TEST_F(ComposerExport, AnExistingFileStaysUnlessToldOtherwise) {
  ASSERT_TRUE(AtomicWriteFile(path_, "mine").ok());
  EXPECT_EQ(Write(SavedRun("Adam")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*ReadFile(path_), "mine");
  EXPECT_TRUE(Write(SavedRun("Adam"), {.overwrite = true}).ok());
  EXPECT_EQ(Weights().size(), 4u);
}

}  // namespace
}  // namespace composer

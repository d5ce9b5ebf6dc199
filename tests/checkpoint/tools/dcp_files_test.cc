// Folders of torch.distributed.checkpoint: those that torch 2.11 wrote on one, two and three ranks
// (tools/make_weights_goldens.py; their values are tests of weight_files_test.cc), and ours, read back.
// tests/integration/dcp_test.py gives ours to dcp.load.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/dcp_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "checkpoint/save/saver.h"
#include "checkpoint/tools/dcp_export.h"
#include "checkpoint/torch_files/dcp_metadata.h"
#include "storage/memory_store.h"
#include "tests/checkpoint/tools/saved_run.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string DcpGolden(absl::string_view name) {
  return absl::StrCat(COMPOSER_SOURCE_DIR "/tests/golden/weights/", name);
}

std::string CopyOfGolden(const TempDir& dir, absl::string_view name) {
  const std::vector<std::string> files = ListDir(DcpGolden(name)).value();
  for (const std::string& file : files)
    EXPECT_TRUE(AtomicWriteFile(dir.Path(file), *ReadFile(JoinPath(DcpGolden(name), file))).ok());
  return dir.path();
}

std::string ErrorOf(const std::string& folder, absl::string_view key = "") {
  return std::string(ReadWeights(folder, key).status().message());
}

TEST(DcpFolder, TheModelIsFoundAndTheRestIsNamed) {
  EXPECT_THAT(ReadWeights(DcpGolden("dcp"), "")->notes,
              ElementsAre("tensors of `model`", "3 other entries left out: `optimizer.state.fc.weight.exp_avg` …"));
  EXPECT_EQ(ReadWeights(DcpGolden("dcp"), "optimizer/state")->tensors[0].first, "fc.weight.exp_avg");
  EXPECT_THAT(ErrorOf(DcpGolden("dcp"), "nothing"), HasSubstr("no tensors in `nothing`; it has `model."));
}

TEST(DcpFolder, ANameThatBeginsWithModelIsNoMember) {
  const auto weights = ReadWeights(DcpGolden("dcp_top"), "");
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->tensors[0].first, "model.fc.weight");
}

TEST(DcpFolder, NothingOfThePickleIsRun) {
  EXPECT_THAT(ErrorOf(DcpGolden("dcp_surprise")),
              HasSubstr(".metadata is posix.system, not the Metadata of torch.distributed.checkpoint"));
  EXPECT_FALSE(PathExists("/tmp/composer_was_here"));
}

TEST(DcpFolder, AMissingOrShorterFileIsFound) {
  const TempDir dir;
  const std::string folder = CopyOfGolden(dir, "dcp");
  const std::string path = JoinPath(folder, "__1_0.distcp");
  const std::string content = *ReadFile(path);
  ASSERT_TRUE(AtomicWriteFile(path, content.substr(0, 1000)).ok());
  EXPECT_THAT(ErrorOf(folder), HasSubstr("__1_0.distcp ends before its place"));
  ASSERT_TRUE(RemoveFile(path).ok());
  EXPECT_THAT(ErrorOf(folder), HasSubstr("__1_0.distcp"));
}

TEST(DcpFolder, EveryFlippedBitOfATensorIsFound) {
  const TempDir dir;
  const std::string folder = CopyOfGolden(dir, "dcp_top"), path = JoinPath(folder, "__0_0.distcp");
  const std::string content = *ReadFile(path);
  std::string bytes;
  const ImportedWeights weights = ReadWeights(folder, "").value();
  for (const auto& [name, tensor] : weights.tensors) {
    bytes.assign(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    if (content.find(bytes) != content.npos) break;
  }
  const size_t begin = content.find(bytes);
  ASSERT_NE(begin, content.npos);
  for (size_t bit = begin * 8; bit < (begin + bytes.size()) * 8; ++bit) {
    std::string flipped = content;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(AtomicWriteFile(path, flipped, {.sync = false}).ok());
    EXPECT_THAT(ErrorOf(folder), HasSubstr("checksum mismatch of record data/0")) << bit;
  }
}

TEST(DcpMetadata, EveryTruncationIsRefused) {
  const std::string content = *ReadFile(DcpGolden("dcp/.metadata"));
  for (size_t size = 0; size < content.size(); ++size)
    EXPECT_FALSE(ReadDcpMetadata(content.substr(0, size)).ok()) << size;
  EXPECT_TRUE(ReadDcpMetadata(content).ok());
}

TEST(DcpMetadata, ChangesAreRefusedByReason) {
  const std::string content = *ReadFile(DcpGolden("dcp/.metadata"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = content;
    text.replace(text.find(from), from.size(), to);
    return std::string(ReadDcpMetadata(text).status().message());
  };
  EXPECT_THAT(changed("__0_0.distcp", "/etc/passwd1"), HasSubstr("it names the file `/etc/passwd1`"));
  EXPECT_THAT(changed("bfloat16", "bfloat17"), HasSubstr("it is of type torch.bfloat17, which is not read"));
  EXPECT_THAT(changed("storage_data", "storage_date"), HasSubstr("a Metadata without storage_data"));
  EXPECT_THAT(changed("relative_path", "relative_part"), HasSubstr("a _StorageInfo without relative_path"));
  EXPECT_THAT(changed("ChunkStorageMetadata", "ChunkStorageMetadatb"),
              HasSubstr("where a ChunkStorageMetadata must be"));
}

class DcpExport : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Write(const StateDict& state, const ComposerExportOptions& options = {}) {
    MemoryStore store;
    EXPECT_TRUE(Saver(store, RankExchange(), {.run_name = "r"}).Save(state, {1, 7}, 70).ok());
    return ExportAsDcp(store, "ep1-ba7", folder_, options);
  }

  TempDir dir_;
  const std::string folder_ = dir_.Path("dcp");
};

TEST_F(DcpExport, IsReadBackBitForBit) {
  const StateDict state = SavedRun("DecoupledAdamW");
  const auto notes = Write(state, {.renames = {{"fc.", "linear."}}});
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, ElementsAre("the state of the algorithm EMA was left out"));
  const std::map<std::string, at::Tensor> saved(state.tensors.begin(), state.tensors.end());
  const auto model = ReadWeights(folder_, "");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->tensors.size(), 4u);
  for (const auto& [name, tensor] : model->tensors) {
    const std::string ours = absl::StrCat("model/", name.substr(0, 7) == "linear." ? "fc." + name.substr(7) : name);
    ASSERT_TRUE(saved.contains(ours)) << name;
    EXPECT_EQ(tensor.scalar_type(), saved.at(ours).scalar_type()) << name;
    EXPECT_TRUE(torch::equal(tensor, saved.at(ours))) << name;
  }
  const auto optimizer = ReadWeights(folder_, "optimizer/state");
  ASSERT_TRUE(optimizer.ok()) << optimizer.status();
  const std::map<std::string, at::Tensor> slots(optimizer->tensors.begin(), optimizer->tensors.end());
  EXPECT_EQ(slots.size(), 6u);
  EXPECT_TRUE(torch::equal(slots.at("linear.weight.exp_avg"), torch::ones({2, 3})));
  EXPECT_EQ(slots.at("linear.bias.step").item<float>(), 5);
}

TEST_F(DcpExport, WhatItCannotWriteIsRefusedAndAFolderThatIsThereStays) {
  EXPECT_THAT(std::string(Write(SavedRun("Muon")).status().message()), HasSubstr("the optimizer Muon is not written"));
  EXPECT_FALSE(PathExists(JoinPath(folder_, ".metadata")));
  EXPECT_TRUE(Write(SavedRun("Muon"), {.weights_only = true}).ok());
  EXPECT_EQ(Write(SavedRun("Adam")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Write(SavedRun("Adam"), {.overwrite = true}).ok());
}

}  // namespace
}  // namespace composer

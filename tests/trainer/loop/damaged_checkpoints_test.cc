// A start reads a checkpoint once, and its state is the right one whatever is damaged.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "absl/strings/match.h"
#include "base/file.h"
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using testing::EndsWith;

// The run has optimizer state, buffers and, on one rank, random numbers: ranks that are threads share torch's
// generator.
TrainerOptions RunWithBuffers(const std::string& folder, int ranks) {
  TrainerOptions options = SmallRun({.batch_norm = true, .dropout = ranks == 1 ? 0.3 : 0});
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(2);
  return options;
}

std::string DataFileOf(const std::string& folder, const std::string& checkpoint) {
  LocalStore store(folder);
  const std::vector<std::string> keys = store.List(checkpoint).value();
  for (const std::string& key : keys) {
    if (absl::EndsWith(key, ".safetensors")) return folder + "/" + key;
  }
  return "";
}

// Damages the last byte of a tensor, which only the tensor's checksum reveals.
void DamageTensor(const std::string& folder, const std::string& checkpoint) {
  const std::string path = DataFileOf(folder, checkpoint);
  std::string bytes = ReadFile(path).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(AtomicWriteFile(path, bytes).ok());
}

class DamagedTest : public testing::TestWithParam<int> {
 protected:
  std::vector<RunResult> Run(const std::string& folder, int64_t batches) {
    return TrainOnRanks(GetParam(), [&](int) {
      TrainerOptions options = RunWithBuffers(folder, GetParam());
      options.max_duration = Time::Batches(batches);
      return options;
    });
  }
};

TEST_P(DamagedTest, AnOlderOneIsTakenAndTheStateIsThatOfAnUndisturbedRun) {
  const TempDir undisturbed, disturbed;
  const std::vector<RunResult> expected = Run(undisturbed.path(), 10);
  Run(disturbed.path(), 6);
  DamageTensor(disturbed.path(), "ep1-ba6");
  DamageTensor(disturbed.path(), "ep0-ba4");
  const std::vector<RunResult> resumed = Run(disturbed.path(), 10);
  for (size_t rank = 0; rank < resumed.size(); ++rank) {
    ASSERT_TRUE(resumed[rank].status.ok()) << resumed[rank].status;
    EXPECT_THAT(resumed[rank].resumed_from, EndsWith("ep0-ba2"));
    EXPECT_EQ(LargestDifference(resumed[rank], expected[rank]), 0);
  }
}

TEST_P(DamagedTest, WhenNoneIsLeftTheRunBeginsAnewWithItsFirstWeights) {
  const TempDir undisturbed, disturbed;
  const std::vector<RunResult> expected = Run(undisturbed.path(), 10);
  Run(disturbed.path(), 6);
  for (const char* checkpoint : {"ep0-ba2", "ep0-ba4", "ep1-ba6"}) DamageTensor(disturbed.path(), checkpoint);
  const std::vector<RunResult> resumed = Run(disturbed.path(), 10);
  for (size_t rank = 0; rank < resumed.size(); ++rank) {
    ASSERT_TRUE(resumed[rank].status.ok()) << resumed[rank].status;
    EXPECT_EQ(resumed[rank].resumed_from, "");
    ExpectSameBits(resumed[rank], expected[rank]);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DamagedTest, testing::Values(1, 2));

// Regression test for R12: the checkpoint was verified whole, and then read again.
TEST(Resume, ReadsEachByteOnce) {
  class Counting final : public FileSystem {
   public:
    absl::Status WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) override {
      return files_.WriteNewFile(path, pieces);
    }
    absl::Status Rename(const std::string& from, const std::string& to) override { return files_.Rename(from, to); }
    absl::Status Link(const std::string& from, const std::string& to) override { return files_.Link(from, to); }
    absl::Status Remove(const std::string& path) override { return files_.Remove(path); }
    absl::Status MakeFolder(const std::string& path) override { return files_.MakeFolder(path); }
    absl::Status SyncFolder(const std::string& path) override { return files_.SyncFolder(path); }
    absl::StatusOr<int64_t> Size(const std::string& path) override { return files_.Size(path); }
    absl::Status Read(const std::string& path, int64_t offset, absl::Span<char> into) override {
      if (absl::EndsWith(path, ".safetensors")) bytes += static_cast<int64_t>(into.size());
      return files_.Read(path, offset, into);
    }
    absl::StatusOr<std::vector<Entry>> List(const std::string& path) override { return files_.List(path); }
    std::atomic<int64_t> bytes{0};

   private:
    FileSystem& files_ = RealFileSystem();
  };
  const TempDir dir;
  const auto wide = [&] {
    TrainerOptions options = SmallRun({.hidden = 4096});
    options.save.save_folder = dir.path();
    return options;
  };
  TrainerOptions first = wide();
  first.max_duration = Time::Batches(2);
  ASSERT_TRUE(Train(std::move(first)).status.ok());
  const int64_t size = static_cast<int64_t>(std::filesystem::file_size(DataFileOf(dir.path(), "ep0-ba2")));
  Counting counting;
  TrainerOptions second = wide();
  second.save.files = &counting;
  const auto trainer = Trainer::Create(std::move(second));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_THAT((*trainer)->resumed_from(), EndsWith("ep0-ba2"));
  EXPECT_GE(counting.bytes, size - 4096);
  EXPECT_LE(counting.bytes, size + 8192) << "and the headers";
}

}  // namespace
}  // namespace composer

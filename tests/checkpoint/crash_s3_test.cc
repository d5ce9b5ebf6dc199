// The process dies at every single request of a save into a bucket: PUTs whole and in parts, the manifest's, lists,
// deletions. The request at which it dies is lost, or carried out without an answer. Then the next run begins.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "tests/checkpoint/save_in_ways.h"
#include "tests/support/fake_bucket.h"

namespace composer {
namespace {

using Fault = FakeS3::Fault;

struct S3CrashCase {
  Fault last;  // the fate of the request at which it dies
  SaveWay way;
  int64_t part_bytes;
};

class CrashOnS3 : public testing::TestWithParam<S3CrashCase> {
 protected:
  void DieAt(int request) {
    bucket_.server.set_script([=, last = GetParam().last](int number, const HttpRequest&) {
      if (number == request) return last;
      return number < request ? Fault::kNone : Fault::kLostRequest;
    });
  }
  // Returns false when it had not died.
  bool Restart(int request) {
    const bool died = bucket_.server.requests() > request;
    bucket_.server.set_script(nullptr);
    return died;
  }
  int Save(int64_t batch, const SaverOptions& options) {
    S3Store store = bucket_.Store(GetParam().part_bytes);
    return SaveThisWay(GetParam().way, store, batch, options);
  }
  void ExpectTheNextRunGoesOn(int at) {
    S3Store store = bucket_.Store(GetParam().part_bytes);
    Saver next(store, RankExchange(), {.run_name = "r", .keep = 2});
    ASSERT_TRUE(next.Save(MakeState(3), {0, 3}, 0).ok()) << at;
    ASSERT_TRUE(next.Save(MakeState(4), {0, 4}, 0).ok()) << at;
    EXPECT_EQ(LoadedDifference(store, 3), "");
    EXPECT_EQ(LoadedDifference(store, 4), "");
    EXPECT_EQ(bucket_.server.objects().size(), 5u) << at;
    EXPECT_EQ(bucket_.server.uploads_left(), 0u) << "an upload in parts that nobody ends, request " << at;
  }

  FakeBucket bucket_;
};

TEST_P(CrashOnS3, AtEveryRequestOfASaveOlderCheckpointsLoadAndNoTornOneIsVisible) {
  int deaths = 0;
  for (int at = 0;; ++at) {
    for (int64_t batch : {1, 2}) ASSERT_GT(Save(batch, {.run_name = "r", .keep = 2}), 0);
    DieAt(at);
    const int returned = Save(3, {.run_name = "r", .keep = 2});
    const bool died = Restart(at);
    S3Store store = bucket_.Store();
    const CheckpointChoice choice = *FindNewestValid(store);
    EXPECT_TRUE(choice.refused.empty()) << "a torn checkpoint is visible: " << choice.refused[0] << ", request " << at;
    EXPECT_TRUE(choice.checkpoint == "ep0-ba3" || (choice.checkpoint == "ep0-ba2" && returned == 0))
        << choice.checkpoint << ", request " << at;
    const auto committed = *CommittedCheckpoints(store);
    for (const CheckpointName& name : committed) EXPECT_EQ(LoadedDifference(store, name.batch), "") << at;
    ExpectTheNextRunGoesOn(at);
    for (const char* step : {"ep0-ba3", "ep0-ba4"}) ASSERT_TRUE(store.DeleteTree(step).ok());
    if (!died) break;
    ++deaths;
  }
  EXPECT_GT(deaths, 10);  // list, data, manifest, latest, and the deletion of batch 1
}

TEST_P(CrashOnS3, AtEveryRequestOfOverwritingAValidCheckpointOfTheSameStep) {
  for (int at = 0;; ++at) {
    ASSERT_GT(Save(3, {.run_name = "other", .overwrite = true}), 0);
    DieAt(at);
    const int returned = Save(3, {.run_name = "r", .overwrite = true});
    const bool died = Restart(at);
    S3Store store = bucket_.Store();
    const CheckpointChoice choice = *FindNewestValid(store);
    EXPECT_TRUE(choice.refused.empty()) << at;
    EXPECT_EQ(choice.checkpoint, "ep0-ba3") << at;
    EXPECT_EQ(LoadedDifference(store, 3), "") << at;
    EXPECT_TRUE(returned == 0 || ReadManifest(store, "ep0-ba3")->run_name == "r") << at;
    if (!died) break;
  }
}

std::vector<S3CrashCase> AllS3Cases() {
  std::vector<S3CrashCase> cases;
  for (const Fault last : {Fault::kLostRequest, Fault::kLostAnswer}) {
    for (const bool async : {false, true}) {
      for (const int ranks : {1, 2}) {
        for (const int64_t part : {int64_t{1} << 20, int64_t{300}}) cases.push_back({last, {async, ranks}, part});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, CrashOnS3, testing::ValuesIn(AllS3Cases()), [](const auto& test) {
  return NameOf(test.param.way) + (test.param.part_bytes > 1000 ? "Whole" : "InParts") +
         (test.param.last == Fault::kLostRequest ? "LostRequest" : "LostAnswer");
});

}  // namespace
}  // namespace composer

// Tests what the watch says of collectives that hang, on the mock accelerator: its groups hang as NCCL's do when a rank
// does not come, or comes with another call.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/collective_watch.h"

#include <ATen/ATen.h>

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "tests/support/accelerator/fixture.h"
#include "tests/support/accelerator/group.h"
#include "tests/support/spawn_ranks.h"
#include "tests/support/temp_dir.h"
#include "trainer/collectives/c10d_communicator.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using mock::Machine;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CollectiveCall AllReduceOf(int64_t sequence, int64_t numel) {
  return {.kind = CollectiveKind::kAllReduce, .numel = numel, .sequence = sequence};
}

TEST(ExplainStuck, NamesWhoIsElsewhere) {
  const CollectiveCall stuck = AllReduceOf(7, 10);
  const auto explain = [&](std::optional<LastCalls> first, std::optional<LastCalls> second) {
    return ExplainStuck(stuck, 1, {std::move(first), LastCalls{stuck}, std::move(second)});
  };
  EXPECT_EQ(explain(LastCalls{stuck}, LastCalls{AllReduceOf(6, 10)}),
            "rank 2 has not come to it, its last one is all-reduce number 6 (Float, 10 elements)");
  EXPECT_EQ(
      explain(LastCalls{}, std::nullopt),
      "rank 0 has not come to it, its last one is no collective yet; rank 2 has not said where it is, or is gone");
  EXPECT_THAT(explain(LastCalls{AllReduceOf(7, 11), AllReduceOf(8, 1)}, LastCalls{stuck}),
              AllOf(HasSubstr("rank 1: all-reduce number 7 (Float, 10 elements)"),
                    HasSubstr("rank 0: all-reduce number 7 (Float, 11 elements)"), Not(HasSubstr("rank 2"))));
  EXPECT_THAT(explain(LastCalls{stuck}, LastCalls{stuck}), HasSubstr("all ranks have come to it"));
  std::vector<std::optional<LastCalls>> many(1000);
  EXPECT_THAT(ExplainStuck(stuck, 3, many), HasSubstr("and 983 more"));
}

class WatchedRanks : public mock::OnMock {
 protected:
  struct Heard {
    absl::Status stuck;
    absl::Notification notification;
  };
  using Body = std::function<void(C10dCommunicator&, CollectiveWatch&, Heard&, int rank)>;
  void OnRanks(int size, const CollectiveWatch::Options& base, const Body& body) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    const auto calls = c10::make_intrusive<c10d::HashStore>();
    SpawnRanks(size, [&](int rank) {
      mock::SetCurrentDevice(rank);
      Heard heard;
      CollectiveWatch::Options options = base;
      options.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(rank));
      options.store = calls;
      options.record_path = PathOf(rank);
      options.backend_record = [] { return R"({"entries": [1]})"; };
      options.on_stuck = [&heard](const absl::Status& status) {
        heard.stuck = status;
        heard.notification.Notify();
      };
      const auto watch = std::make_shared<CollectiveWatch>(options);
      C10dCommunicator communicator(c10::make_intrusive<mock::MockGroup>(store, rank, size), options.device, nullptr,
                                    "", watch);
      body(communicator, *watch, heard, rank);
      CatchTorch([&] { Machine::Get().WaitForDevice(rank, "end"); }).IgnoreError();
    });
  }
  std::string PathOf(int rank) const { return folder_.Path(absl::StrCat("logs/collectives-", rank, ".json")); }
  static at::Tensor Ones(Communicator& ranks, int64_t n) { return at::ones({n}, ranks.device()); }

  TempDir folder_;
};

constexpr auto kShort = std::chrono::milliseconds(500);

TEST_F(WatchedRanks, NothingIsSaidOfCollectivesThatEnd) {
  OnRanks(2, {.timeout = kShort}, [](Communicator& ranks, CollectiveWatch&, const auto& heard, int) {
    for (int i = 0; i < 100; ++i) {
      const at::Tensor sum = Ones(ranks, 30);
      ranks.AllReduceSum(sum);
      EXPECT_EQ(sum[0].item<float>(), 2);
    }
    EXPECT_FALSE(heard.notification.WaitForNotificationWithTimeout(absl::FromChrono(2 * kShort)))
        << "a rank that computes for long hangs in no collective: " << heard.stuck;
  });
  EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty());
  EXPECT_FALSE(PathExists(PathOf(0)));
}

// The mock aborts the group of all ranks, so that only the rank that is first may have something to say.
TEST_F(WatchedRanks, CallsThatDifferAreNamedAndRecorded) {
  std::atomic<int> spoke = -1;
  OnRanks(2, {.timeout = kShort}, [&](Communicator& ranks, CollectiveWatch&, auto& heard, int rank) {
    ranks.AllReduceSum(Ones(ranks, 30));
    ranks.AllReduceSum(Ones(ranks, 30 + rank));  // the host goes on
    while (!heard.notification.WaitForNotificationWithTimeout(absl::Milliseconds(5))) {
      if (spoke != -1) return;
    }
    spoke = rank;
    EXPECT_EQ(heard.stuck.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(heard.stuck.message(),
                AllOf(HasSubstr("number 2"), HasSubstr("of group world did not end in"),
                      HasSubstr("they have gone different ways"), HasSubstr("(Float, 30 elements)"),
                      HasSubstr("(Float, 31 elements)"), HasSubstr("; flight record: " + PathOf(rank))));
    EXPECT_THROW(ranks.AllReduceSum(Ones(ranks, 30)), c10::Error) << "the group was aborted";
  });
  const auto record = nlohmann::json::parse(ReadFile(PathOf(spoke)).value());
  const auto& group = record["groups"][0];
  EXPECT_EQ(group["name"], "world");
  EXPECT_EQ(group["rank"], spoke.load());
  EXPECT_EQ(group["calls"][0]["ended"], true);
  EXPECT_EQ(group["calls"][1]["call"], absl::StrCat("all-reduce number 2 (Float, ", 30 + spoke, " elements)"));
  EXPECT_EQ(group["calls"][1]["ended"], false);
  EXPECT_EQ(record["backend"]["entries"][0], 1);
}

TEST_F(WatchedRanks, ARankThatDoesNotComeIsNamed) {
  absl::Notification both;
  OnRanks(2, {.timeout = kShort}, [&](Communicator& ranks, CollectiveWatch&, auto& heard, int rank) {
    ranks.AllReduceSum(Ones(ranks, 30));
    if (rank == 1) return both.WaitForNotification();
    ranks.AllReduceSum(Ones(ranks, 30));
    heard.notification.WaitForNotification();
    EXPECT_THAT(heard.stuck.message(), HasSubstr("rank 1 has not come to it, its last one is all-reduce number 1"));
    both.Notify();
  });
}

TEST_F(WatchedRanks, CallsAreComparedBeforeTheyStart) {
  OnRanks(2, {.check_calls = true}, [](Communicator& ranks, CollectiveWatch&, auto&, int rank) {
    for (int i = 0; i < 10; ++i) ranks.AllReduceSum(Ones(ranks, 30));
    try {
      ranks.AllReduceSum(Ones(ranks, 30 + rank));
      ADD_FAILURE() << "nothing was said of calls that differ";
    } catch (const StatusError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0: all-reduce number 11 (Float, 30 elements)"),
                                      HasSubstr("rank 1: all-reduce number 11 (Float, 31 elements)")));
    }
  });
}

// As when the launcher says that a peer is gone.
TEST_F(WatchedRanks, AbandonEndsWhatHangs) {
  OnRanks(2, {}, [&](Communicator& ranks, CollectiveWatch& watch, auto& heard, int rank) {
    if (rank == 1) return;
    ranks.AllReduceSum(Ones(ranks, 30));
    std::string said;
    std::thread agent([&] { said = watch.Abandon("rank 1 is gone", std::chrono::seconds(10)); });
    EXPECT_THROW(Machine::Get().WaitForDevice(rank, "the host waits"), c10::Error);
    agent.join();
    EXPECT_EQ(said, "; flight record: " + PathOf(0));
    EXPECT_THAT(ReadFile(PathOf(0)).value(), HasSubstr("\"why\": \"rank 1 is gone\""));
    EXPECT_FALSE(heard.notification.HasBeenNotified());
  });
}

}  // namespace
}  // namespace composer

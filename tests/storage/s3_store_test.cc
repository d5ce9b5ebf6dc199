// SPDX-License-Identifier: Apache-2.0
#include "storage/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/object_store_suite.h"
#include "tests/support/fake_s3.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Fault = FakeS3::Fault;

// Everything a store needs, in one place. Time is made up, so that waiting costs none.
struct Bucket {
  FakeS3 server;
  ManualClock clock;
  std::shared_ptr<S3KeySource> keys = std::make_shared<S3KeySource>(
      [] { return S3Credentials{{"id", "secret", ""}, absl::InfiniteFuture(), "test"}; }, clock);

  S3Store Store(int64_t part_bytes = S3Store::kPartBytes, S3Bucket::CreateOnly create = {}) {
    S3Store::Options options;
    options.bucket = {.endpoint = "http://fake", .name = "bucket"};
    options.bucket.create_only = create;
    options.prefix = "runs/mine";
    options.part_bytes = part_bytes;
    return {options, server, keys, clock};
  }
};

// A store that keeps its bucket.
struct StoreWithBucket {
  StoreWithBucket(S3Bucket::CreateOnly create, int64_t part) : store(bucket.Store(part, create)) {
    bucket.server.set_page_size(2);
  }
  Bucket bucket;
  S3Store store;
};

std::shared_ptr<ObjectStore> NewStore(S3Bucket::CreateOnly create, int64_t part) {
  const auto owned = std::make_shared<StoreWithBucket>(create, part);
  return {owned, &owned->store};
}

INSTANTIATE_TEST_SUITE_P(S3, ObjectStoreSuite, testing::Values([] {
                           return NewStore(S3Bucket::CreateOnly::kIfNoneMatch, S3Store::kPartBytes);
                         }));
INSTANTIATE_TEST_SUITE_P(S3InParts, ObjectStoreSuite,
                         testing::Values([] { return NewStore(S3Bucket::CreateOnly::kIfNoneMatch, 3); }));
INSTANTIATE_TEST_SUITE_P(Gcs, ObjectStoreSuite, testing::Values([] {
                           return NewStore(S3Bucket::CreateOnly::kGenerationMatch, S3Store::kPartBytes);
                         }));

TEST(S3Store, KeepsToItsPrefix) {
  Bucket bucket;
  S3Store store = bucket.Store();
  ASSERT_TRUE(store.Put("a/k", {"x"}).ok());
  EXPECT_THAT(bucket.server.objects(), ElementsAre(testing::Pair("/bucket/runs/mine/a/k", "x")));
  EXPECT_EQ(store.Location("a/k"), "s3://bucket/runs/mine/a/k");
}

// Every request of an operation fails once, in each way: the outcome is that of an undisturbed one.
class EveryRequestFailsOnce : public testing::TestWithParam<Fault> {};

TEST_P(EveryRequestFailsOnce, AndNothingIsLostOrDoubled) {
  const std::string content(100, 'c');
  for (const int64_t part : {int64_t{1} << 20, int64_t{30}}) {
    for (const bool create : {false, true}) {
      Bucket counting;
      S3Store undisturbed = counting.Store(part);
      const auto put = [&](S3Store& store) {
        return create ? store.PutIfAbsent("k", {content}) : store.Put("k", {content});
      };
      ASSERT_TRUE(put(undisturbed).ok());
      const int requests = counting.server.requests();
      for (int bad = 0; bad < requests; ++bad) {
        Bucket bucket;
        bucket.server.set_script(
            [&](int number, const HttpRequest&) { return number == bad ? GetParam() : Fault::kNone; });
        S3Store store = bucket.Store(part);
        const absl::Status status = put(store);
        EXPECT_TRUE(status.ok()) << "request " << bad << ": " << status;
        EXPECT_THAT(bucket.server.objects(), ElementsAre(testing::Pair("/bucket/runs/mine/k", content)));
        bucket.server.set_script(nullptr);
        EXPECT_EQ(store.PutIfAbsent("k", {"other"}).code(), absl::StatusCode::kAlreadyExists);
        std::string read(content.size(), ' ');
        EXPECT_TRUE(store.Read("k", 0, absl::MakeSpan(read.data(), read.size())).ok());
        EXPECT_EQ(read, content);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, EveryRequestFailsOnce,
                         testing::Values(Fault::kLostRequest, Fault::kLostAnswer, Fault::kSlowDown));

TEST(S3Store, AnObjectOfSomebodyElseIsNotTakenForOnesOwn) {
  Bucket bucket;
  S3Store store = bucket.Store();
  ASSERT_TRUE(store.Put("k", {"theirs"}).ok());
  bucket.server.set_script(
      [](int number, const HttpRequest&) { return number == 0 ? Fault::kLostAnswer : Fault::kNone; });
  EXPECT_EQ(store.PutIfAbsent("k", {"mine"}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(bucket.server.objects(), ElementsAre(testing::Pair("/bucket/runs/mine/k", "theirs")));
}

TEST(S3Store, AServerThatStaysAwayEndsInAnErrorThatSaysHowOften) {
  Bucket bucket;
  S3Store store = bucket.Store(30);
  bucket.server.set_script(
      [](int, const HttpRequest& request) { return request.method == "PUT" ? Fault::kSlowDown : Fault::kNone; });
  const absl::Status status = store.Put("k", {std::string(100, 'x')});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("s3://bucket/runs/mine/k"), HasSubstr("SlowDown"), HasSubstr("12 tries")));
  EXPECT_THAT(bucket.server.objects(), IsEmpty());
  EXPECT_EQ(bucket.server.uploads_left(), 0u) << "the upload is given up";
}

TEST(S3Store, WithoutKeysTheErrorSaysWhereWasLooked) {
  Bucket bucket;
  bucket.keys = std::make_shared<S3KeySource>(
      [&] {
        return FindS3Credentials(Environment({{"AWS_EC2_METADATA_DISABLED", "true"}, {"HOME", "/nonexistent"}}),
                                 bucket.server, absl::Now());
      },
      bucket.clock);
  S3Store store = bucket.Store();
  const absl::Status status = store.Put("k", {"x"});
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("AWS_ACCESS_KEY_ID"));
}

}  // namespace
}  // namespace composer

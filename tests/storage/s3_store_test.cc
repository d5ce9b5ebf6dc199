// SPDX-License-Identifier: Apache-2.0
#include "storage/s3_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/object_store_suite.h"
#include "tests/support/fake_bucket.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Fault = FakeS3::Fault;

// A store that keeps its bucket.
struct StoreWithBucket {
  StoreWithBucket(S3Bucket::CreateOnly create, int64_t part) : store(bucket.Store(part, create)) {
    bucket.server.set_page_size(2);
  }
  FakeBucket bucket;
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

// As with the service account of a machine: a token in place of a signature, and Google's names of headers.
struct GoogleBucket {
  GoogleBucket() : store(Options(), bucket.server, keys, bucket.clock) { bucket.server.set_deletes_many(false); }
  static S3Store::Options Options() {
    S3Store::Options options;
    options.bucket = {.scheme = "gs", .endpoint = "http://fake", .name = "bucket"};
    options.bucket.create_only = S3Bucket::CreateOnly::kGenerationMatch;
    options.bucket.attempt_header = "x-goog-meta-composer-attempt";
    options.prefix = "runs/mine";
    return options;
  }
  FakeBucket bucket;
  std::shared_ptr<S3KeySource> keys = std::make_shared<S3KeySource>(
      [] { return S3Credentials{{"", "", "", "token"}, absl::InfiniteFuture(), "test"}; }, bucket.clock);
  S3Store store;
};

INSTANTIATE_TEST_SUITE_P(GcsWithAToken, ObjectStoreSuite, testing::Values([]() -> std::shared_ptr<ObjectStore> {
                           const auto owned = std::make_shared<GoogleBucket>();
                           return {owned, &owned->store};
                         }));

// Regression test for R15: requests were signed with the machine's clock, not with the one that decides when keys
// expire and how long to wait.
TEST(S3Store, RequestsAreSignedWithItsClock) {
  FakeBucket bucket;
  bucket.clock.Advance(absl::Hours(24));
  std::string date;
  bucket.server.set_script([&](int, const HttpRequest& request) {
    for (const auto& [name, value] : request.headers) {
      if (name == "x-amz-date") date = value;
    }
    return Fault::kNone;
  });
  S3Store store = bucket.Store();
  ASSERT_TRUE(store.Put("k", {"x"}).ok());
  EXPECT_EQ(date, "19700102T000000Z");
}

TEST(S3Store, GivenUpItTriesNoLonger) {
  FakeBucket bucket;
  S3Store store = bucket.Store();
  bucket.server.set_script([&](int number, const HttpRequest&) {
    if (number == 2) store.GiveUp();
    return Fault::kSlowDown;
  });
  EXPECT_EQ(store.Put("k", {"x"}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(bucket.server.requests(), 3);
}

TEST(S3Store, KeepsToItsPrefix) {
  FakeBucket bucket;
  S3Store store = bucket.Store();
  ASSERT_TRUE(store.Put("a/k", {"x"}).ok());
  EXPECT_THAT(bucket.server.objects(), ElementsAre(testing::Pair("/bucket/runs/mine/a/k", "x")));
  EXPECT_EQ(store.Location("a/k"), "s3://bucket/runs/mine/a/k");
}

// Every request of an operation fails once, in each way: the outcome is the same as without failures.
class EveryRequestFailsOnce : public testing::TestWithParam<Fault> {};

TEST_P(EveryRequestFailsOnce, AndNothingIsLostOrDoubled) {
  const std::string content(100, 'c');
  for (const int64_t part : {int64_t{1} << 20, int64_t{30}}) {
    for (const bool create : {false, true}) {
      FakeBucket counting;
      S3Store undisturbed = counting.Store(part);
      const auto put = [&](S3Store& store) {
        return create ? store.PutIfAbsent("k", {content}) : store.Put("k", {content});
      };
      ASSERT_TRUE(put(undisturbed).ok());
      const int requests = counting.server.requests();
      for (int bad = 0; bad < requests; ++bad) {
        FakeBucket bucket;
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
  FakeBucket bucket;
  S3Store store = bucket.Store();
  ASSERT_TRUE(store.Put("k", {"theirs"}).ok());
  bucket.server.set_script(
      [](int number, const HttpRequest&) { return number == 0 ? Fault::kLostAnswer : Fault::kNone; });
  EXPECT_EQ(store.PutIfAbsent("k", {"mine"}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(bucket.server.objects(), ElementsAre(testing::Pair("/bucket/runs/mine/k", "theirs")));
}

TEST(S3Store, AServerThatStaysAwayEndsInAnErrorThatSaysHowOften) {
  FakeBucket bucket;
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

// A process that dies in the middle of a multipart upload leaves it in the bucket, where it costs money and is
// invisible.
TEST(S3Store, WhatADeadProcessLeftOfAnUploadIsListedAsLeftoversAndDeleted) {
  FakeBucket bucket;
  bucket.server.set_page_size(1);
  S3Store store = bucket.Store(30);
  ASSERT_TRUE(store.Put("a/whole", {std::string(100, 'x')}).ok());
  for (const char* key : {"a/k", "a/k", "b", "ab/k"}) {
    bucket.server.set_script([](int number, const HttpRequest&) { return number < 2 ? Fault::kNone : Fault::kReset; });
    EXPECT_FALSE(store.Put(key, {std::string(100, 'x')}).ok());
  }
  bucket.server.set_script(nullptr);
  EXPECT_EQ(bucket.server.uploads_left(), 4u);
  EXPECT_THAT(*store.List(""), ElementsAre(".put-b", "a/.put-k", "a/whole", "ab/.put-k"));
  EXPECT_THAT(*store.List("a"), ElementsAre("a/.put-k", "a/whole"));
  EXPECT_TRUE(store.Delete("a/.put-k").ok());
  EXPECT_EQ(bucket.server.uploads_left(), 2u) << "both uploads of a/k are gone";
  EXPECT_TRUE(store.DeleteTree("ab").ok());
  EXPECT_TRUE(store.Delete(".put-b").ok());
  EXPECT_TRUE(store.Delete(".put-b").ok());
  EXPECT_EQ(bucket.server.uploads_left(), 0u);
  EXPECT_THAT(*store.List(""), ElementsAre("a/whole"));
  EXPECT_EQ(store.Delete(".put-../x").code(), absl::StatusCode::kInvalidArgument);
}

TEST(S3Store, AFolderGoesWithOneRequestOrOneAnObjectWhereThatIsNotKnown) {
  for (const bool knows : {true, false}) {
    FakeBucket bucket;
    bucket.server.set_deletes_many(knows);
    S3Store store = bucket.Store();
    for (const char* folder : {"a", "b", "ab"}) {
      for (int i = 0; i < 5; ++i) ASSERT_TRUE(store.Put(absl::StrCat(folder, "/", i), {"x"}).ok());
    }
    bucket.server.set_script(nullptr);
    ASSERT_TRUE(store.DeleteTree("a").ok());
    EXPECT_EQ(bucket.server.requests(), knows ? 3 : 8) << "two lists, and the deletion";
    ASSERT_TRUE(store.DeleteTree("b").ok());
    EXPECT_EQ(bucket.server.requests(), knows ? 6 : 15) << "it is asked once whether it knows";
    EXPECT_EQ(bucket.server.objects().size(), 5u);
    EXPECT_EQ(store.List("ab")->size(), 5u);
  }
}

TEST(S3Store, AServerThatTellsNoUploadsIsAskedOnce) {
  FakeBucket bucket;
  bucket.server.set_tells_uploads(false);
  S3Store store = bucket.Store();
  ASSERT_TRUE(store.Put("a/k", {"x"}).ok());
  bucket.server.set_script(nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(*store.List(""), ElementsAre("a/k"));
  EXPECT_EQ(bucket.server.requests(), 4) << "three lists, and one question after uploads";
}

TEST(S3Store, WithoutKeysTheErrorSaysWhereWasLooked) {
  FakeBucket bucket;
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

// Azure's blobs, Databricks' volumes and Oracle's objects: the conformance suite, and each request of an operation
// failing in each way.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "storage/azure_store.h"
#include "storage/cloud_answers.h"
#include "storage/oci_store.h"
#include "storage/volume_store.h"
#include "tests/conformance/object_store_suite.h"
#include "tests/support/fake_azure.h"
#include "tests/support/fake_oci.h"
#include "tests/support/fake_volume.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using CloudFault = ScriptedHttp::Fault;

// A store with its server. Time is simulated, so that waiting takes none.
struct Cloud {
  virtual ~Cloud() = default;
  virtual ScriptedHttp& server() = 0;
  virtual ObjectStore& store() = 0;
  ManualClock clock;
};

struct AzureCloud final : Cloud {
  explicit AzureCloud(int64_t part) : azure(Options(part), fake, clock) {}
  static AzureStore::Options Options(int64_t part) {
    AzureStore::Options options;
    options.endpoint = "http://fake/account";
    options.container = "runs";
    options.prefix = "mine";
    options.credentials = {"account", "a2V5", ""};
    options.part_bytes = part;
    return options;
  }
  ScriptedHttp& server() override { return fake; }
  ObjectStore& store() override { return azure; }
  FakeAzure fake;
  AzureStore azure;
};

struct VolumeCloud final : Cloud {
  VolumeCloud() : volume({"https://fake", "secret", "/Volumes/main/default/runs/mine", {}}, fake, clock) {}
  ScriptedHttp& server() override { return fake; }
  ObjectStore& store() override { return volume; }
  FakeVolume fake;
  VolumeStore volume;
};

// A key of the client's goldens.
OciCredentials OciUser() {
  const auto golden = nlohmann::json::parse(ReadFile("tests/golden/oci_signatures.json").value());
  return {golden["tenancy"], golden["user"], golden["fingerprint"], golden["keys"][0]["private_key"], ""};
}

struct OciCloud final : Cloud {
  explicit OciCloud(int64_t part)
      : oci({"https://fake", "", "runs", "mine", OciUser(), {}, part, /*most_parts=*/50}, fake, clock) {}
  ScriptedHttp& server() override { return fake; }
  ObjectStore& store() override { return oci; }
  FakeOci fake;
  OciStore oci;
};

using MakeCloud = std::function<std::shared_ptr<Cloud>()>;
std::shared_ptr<Cloud> Azure() { return std::make_shared<AzureCloud>(AzureStore::kPartBytes); }
std::shared_ptr<Cloud> AzureInBlocks() { return std::make_shared<AzureCloud>(3); }
std::shared_ptr<Cloud> Volume() { return std::make_shared<VolumeCloud>(); }
std::shared_ptr<Cloud> Oci() { return std::make_shared<OciCloud>(OciStore::kPartBytes); }
std::shared_ptr<Cloud> OciInParts() { return std::make_shared<OciCloud>(3); }

ObjectStoreFactory StoreOf(MakeCloud make) {
  return [make] {
    const std::shared_ptr<Cloud> cloud = make();
    return std::shared_ptr<ObjectStore>(cloud, &cloud->store());
  };
}

INSTANTIATE_TEST_SUITE_P(Azure, ObjectStoreSuite, testing::Values(StoreOf(Azure)));
INSTANTIATE_TEST_SUITE_P(AzureInBlocks, ObjectStoreSuite, testing::Values(StoreOf(AzureInBlocks)));
INSTANTIATE_TEST_SUITE_P(Volume, ObjectStoreSuite, testing::Values(StoreOf(Volume)));
INSTANTIATE_TEST_SUITE_P(Oci, ObjectStoreSuite, testing::Values(StoreOf(Oci)));
INSTANTIATE_TEST_SUITE_P(OciInParts, ObjectStoreSuite, testing::Values(StoreOf(OciInParts)));

class CloudStore : public testing::TestWithParam<MakeCloud> {};

TEST_P(CloudStore, EveryRequestMayFailOnceAndNothingIsLostOrDoubled) {
  for (const CloudFault fault : {CloudFault::kLostRequest, CloudFault::kLostAnswer, CloudFault::kBusy}) {
    for (const bool create : {false, true}) {
      const auto put = [&](ObjectStore& store) {
        return create ? store.PutIfAbsent("a/k", {"content"}) : store.Put("a/k", {"content"});
      };
      const auto counting = GetParam()();
      ASSERT_TRUE(put(counting->store()).ok());
      for (int bad = 0; bad < counting->server().requests(); ++bad) {
        const auto cloud = GetParam()();
        cloud->server().set_script([&](int number) { return number == bad ? fault : CloudFault::kNone; });
        const absl::Status status = put(cloud->store());
        EXPECT_TRUE(status.ok()) << "request " << bad << ": " << status;
        cloud->server().set_script(nullptr);
        EXPECT_THAT(cloud->server().objects(), ElementsAre(Pair(testing::EndsWith("/mine/a/k"), "content")));
        EXPECT_EQ(cloud->store().PutIfAbsent("a/k", {"other"}).code(), absl::StatusCode::kAlreadyExists);
        EXPECT_EQ(*GetObject(cloud->store(), "a/k", 100), "content");
      }
    }
  }
}

TEST_P(CloudStore, AnObjectOfSomebodyElseIsNotTakenForOnesOwn) {
  const auto cloud = GetParam()();
  ASSERT_TRUE(cloud->store().Put("k", {"theirs"}).ok());
  cloud->server().set_script([](int number) { return number == 0 ? CloudFault::kLostAnswer : CloudFault::kNone; });
  EXPECT_EQ(cloud->store().PutIfAbsent("k", {"mine"}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*GetObject(cloud->store(), "k", 100), "theirs");
}

TEST_P(CloudStore, AServerThatStaysAwayEndsInAnErrorThatNamesTheObject) {
  const auto cloud = GetParam()();
  cloud->server().set_script([](int) { return CloudFault::kBusy; });
  const absl::Status status = cloud->store().Put("k", {"x"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("mine/k"), HasSubstr("12 tries")));
}

TEST_P(CloudStore, GivenUpItTriesNoLonger) {
  const auto cloud = GetParam()();
  cloud->server().set_script([&](int number) {
    if (number == 2) cloud->store().GiveUp();
    return CloudFault::kBusy;
  });
  EXPECT_EQ(cloud->store().Put("k", {"x"}).code(), absl::StatusCode::kCancelled);
}

INSTANTIATE_TEST_SUITE_P(Clouds, CloudStore,
                         testing::Values(MakeCloud(Azure), MakeCloud(AzureInBlocks), MakeCloud(Volume), MakeCloud(Oci),
                                         MakeCloud(OciInParts)));

TEST(OciUploads, WhatNobodyEndedIsALeftoverAndAFailedOneIsAborted) {
  OciCloud cloud(3);
  // The namespace, the upload and a part; then everything fails until the tries are over, and so does the abort.
  cloud.fake.set_script([](int number) { return number < 3 ? CloudFault::kNone : CloudFault::kBusy; });
  EXPECT_EQ(cloud.oci.Put("a/k", {"content"}).code(), absl::StatusCode::kUnavailable);
  cloud.fake.set_script(nullptr);
  EXPECT_EQ(cloud.fake.uploads(), 1u);
  EXPECT_THAT(*cloud.oci.List(""), ElementsAre("a/.put-k"));
  EXPECT_TRUE(IsLeftover("a/.put-k"));
  ASSERT_TRUE(cloud.oci.Delete("a/.put-k").ok());
  EXPECT_EQ(cloud.fake.uploads(), 0u);
  ASSERT_TRUE(cloud.oci.Put("a/k", {"content"}).ok());
  EXPECT_EQ(cloud.oci.PutIfAbsent("a/k", {"another"}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(cloud.fake.uploads(), 0u);
}

TEST(CloudLists, HostileAnswersAreErrors) {
  for (const char* wrong : {"", "<", "<EnumerationResults><Blobs><Blob/></Blobs></EnumerationResults>", "{}"})
    EXPECT_FALSE(ParseAzureList(wrong).ok()) << wrong;
  for (const char* wrong : {"", "[]", "{\"contents\": 3}", "{\"contents\": [3]}", "{\"contents\": [{\"path\": 1}]}"})
    EXPECT_FALSE(ParseVolumeList(wrong).ok()) << wrong;
  EXPECT_TRUE(ParseVolumeList("{}")->files.empty());
  for (const char* wrong : {"", "[]", "{}", "{\"objects\": 3}", "{\"objects\": [{\"name\": 1}]}"})
    EXPECT_FALSE(ParseOciList(wrong).ok()) << wrong;
  for (const char* wrong : {"", "{}", "[{}]", "[{\"object\": \"a\"}]"})
    EXPECT_FALSE(ParseOciUploads(wrong).ok()) << wrong;
  for (const char* wrong : {"", "3", "\"\"", "\"a/../b\"", "{\"a\": 1}"})
    EXPECT_FALSE(ParseOciNamespace(wrong).ok()) << wrong;
  EXPECT_FALSE(ParseOciUploadId("[]").ok());
}

}  // namespace
}  // namespace composer

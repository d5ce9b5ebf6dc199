// Tests the pure parts around S3: answers, configuration files, credentials, places, retries.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/retry.h"
#include "storage/identity/aws_config.h"
#include "storage/open_store.h"
#include "storage/s3_answers.h"
#include "storage/s3_credentials.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(S3Answers, ListsAndItsDamages) {
  const auto page = ParseS3List(
      "<?xml version=\"1.0\"?><ListBucketResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t/1</NextContinuationToken><Contents><Key>a&amp;b</Key><Size>1</Size></Contents></"
      "ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->keys, ElementsAre("a&b"));
  EXPECT_EQ(page->next, "t/1");
  for (const char* wrong : {"", "<html/>", "<ListBucketResult>", "<ListBucketResult><Contents/></ListBucketResult>",
                            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    EXPECT_FALSE(ParseS3List(wrong).ok()) << wrong;
  }
  EXPECT_FALSE(ParseS3UploadId("<InitiateMultipartUploadResult/>").ok());
}

TEST(S3Answers, UploadsInPartsThatNobodyEnded) {
  const auto page = ParseS3Uploads(
      "<?xml version=\"1.0\"?><ListMultipartUploadsResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Upload><Key>a/k"
      "</Key><UploadId>1~x</UploadId></Upload><Upload><Key>b</Key><UploadId>2</UploadId></Upload><IsTruncated>true"
      "</IsTruncated><NextKeyMarker>b</NextKeyMarker><NextUploadIdMarker>2</NextUploadIdMarker></"
      "ListMultipartUploadsResult>");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->uploads.size(), 2u);
  EXPECT_EQ(page->uploads[0].key, "a/k");
  EXPECT_EQ(page->uploads[0].id, "1~x");
  EXPECT_EQ(page->next_key, "b");
  EXPECT_EQ(page->next_id, "2");
  for (const char* wrong :
       {"", "<html/>", "<ListBucketResult/>",
        "<ListMultipartUploadsResult><Upload><Key>a</Key></Upload></ListMultipartUploadsResult>",
        "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>"}) {
    EXPECT_FALSE(ParseS3Uploads(wrong).ok()) << wrong;
  }
}

TEST(S3Answers, WhatWasNotDeletedIsNamed) {
  EXPECT_EQ(*ParseS3DeleteErrors("<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>"), "");
  EXPECT_EQ(*ParseS3DeleteErrors("<DeleteResult><Error><Key>a</Key><Code>NoSuchKey</Code></Error></DeleteResult>"), "");
  EXPECT_EQ(
      *ParseS3DeleteErrors("<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
                           "</DeleteResult>"),
      "a: AccessDenied: no");
  EXPECT_FALSE(ParseS3DeleteErrors("<Error/>").ok());
}

TEST(S3Answers, StatusOfAnAnswer) {
  const auto code = [](int status, const char* error = "") {
    return StatusOfAnswer({status, {}, std::string("<Error><Code>") + error + "</Code></Error>"}, "k").code();
  };
  EXPECT_EQ(code(404), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(403, "AccessDenied"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(403, "RequestTimeTooSkewed"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(412), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code(416), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(503, "SlowDown"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(400, "RequestTimeout"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(400, "InvalidArgument"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(301, "PermanentRedirect"), absl::StatusCode::kInternal);
}

TEST(AwsConfig, Profiles) {
  const AwsSections sections = ParseAwsConfig(
      "# comment\n[default]\nregion = eu-west-1 # here\n aws_access_key_id=indented is nested\n[profile train]\r\n"
      "AWS_ACCESS_KEY_ID=ID\naws_secret_access_key = a=b=\nno equals sign\n[");
  EXPECT_EQ(sections.at("default"), (std::map<std::string, std::string>{{"region", "eu-west-1"}}));
  EXPECT_EQ(sections.at("train").at("aws_access_key_id"), "ID");
  EXPECT_EQ(sections.at("train").at("aws_secret_access_key"), "a=b=");
}

// Answers by path.
class Metadata final : public Http {
 public:
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    asked.push_back(request.method + " " + UrlOf(request));
    const auto it = answers.find(request.path);
    if (it == answers.end()) return absl::UnavailableError("nobody there");
    return HttpResponse{200, {}, it->second};
  }
  std::map<std::string, std::string> answers;
  std::vector<std::string> asked;
};

constexpr char kKeys[] =
    R"({"AccessKeyId":"id","SecretAccessKey":"s","Token":"t","Expiration":"2040-01-01T00:00:00Z"})";

TEST(S3Credentials, InAwsOrder) {
  const TempDir folder;
  ASSERT_TRUE(
      AtomicWriteFile(folder.Path("credentials"), "[default]\naws_access_key_id=file\naws_secret_access_key=s\n").ok());
  ASSERT_TRUE(AtomicWriteFile(folder.Path("token"), "jwt\n").ok());
  Metadata http;
  http.answers["/"] =
      "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>web</AccessKeyId>"
      "<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2040-01-01T00:00:00Z</Expiration>"
      "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
  http.answers["/creds"] = kKeys;
  http.answers["/latest/api/token"] = "imds-token";
  http.answers["/latest/meta-data/iam/security-credentials/"] = "role\n";
  http.answers["/latest/meta-data/iam/security-credentials/role"] = kKeys;
  Environment env({{"AWS_ACCESS_KEY_ID", "env"},
                   {"AWS_SECRET_ACCESS_KEY", "s"},
                   {"HOME", folder.path()},
                   {"AWS_WEB_IDENTITY_TOKEN_FILE", folder.Path("token")},
                   {"AWS_ROLE_ARN", "arn:role"},
                   {"AWS_SHARED_CREDENTIALS_FILE", folder.Path("credentials")},
                   {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/creds"}});
  const auto id = [&] {
    const auto found = FindS3Credentials(env, http, absl::Now());
    return found.ok() ? found->key.access_key_id + " from " + found->origin : found.status().ToString();
  };
  EXPECT_EQ(id(), "env from environment");
  env.Remove("AWS_SECRET_ACCESS_KEY");
  EXPECT_THAT(id(), HasSubstr("only one of them"));
  env.Remove("AWS_ACCESS_KEY_ID");
  EXPECT_THAT(id(), HasSubstr("web from web identity"));
  EXPECT_THAT(http.asked.back(), HasSubstr("WebIdentityToken=jwt"));
  env.Remove("AWS_ROLE_ARN");
  EXPECT_THAT(id(), HasSubstr("file from profile default"));
  env.Remove("AWS_SHARED_CREDENTIALS_FILE");
  EXPECT_THAT(id(), HasSubstr("id from the container's role"));
  env.Set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/creds");
  EXPECT_THAT(id(), HasSubstr("must be https"));
  env.Remove("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  EXPECT_THAT(id(), HasSubstr("id from the instance's role role"));
  env.Set("AWS_EC2_METADATA_DISABLED", "TRUE");
  EXPECT_THAT(id(), HasSubstr("no credentials for S3"));
}

TEST(S3KeySource, FetchesBeforeTheyExpireAndKeepsGoodOnesWhenThatFails) {
  ManualClock clock(absl::UnixEpoch());
  int fetched = 0;
  bool broken = false;
  S3KeySource source(
      [&]() -> absl::StatusOr<S3Credentials> {
        if (broken) return absl::UnavailableError("away");
        return S3Credentials{{std::to_string(++fetched), "s", ""}, clock.Now() + absl::Hours(1), "test"};
      },
      clock);
  EXPECT_EQ(source.Get()->access_key_id, "1");
  clock.Advance(absl::Minutes(54));
  EXPECT_EQ(source.Get()->access_key_id, "1");
  clock.Advance(absl::Minutes(2));
  EXPECT_EQ(source.Get()->access_key_id, "2");
  broken = true;
  clock.Advance(absl::Minutes(57));
  EXPECT_EQ(source.Get()->access_key_id, "2") << "they are good for three minutes more";
  clock.Advance(absl::Minutes(4));
  EXPECT_EQ(source.Get().status().code(), absl::StatusCode::kUnavailable);
  broken = false;
  EXPECT_EQ(source.Get()->access_key_id, "3");
  source.Forget();
  EXPECT_EQ(source.Get()->access_key_id, "4");
}

TEST(OpenStore, Places) {
  const Environment env({{"AWS_REGION", "eu-west-1"},
                         {"OCI_KEY", "id"},
                         {"OCI_SECRET", "secret"},
                         {"OCI_REGION", "us-ashburn-1"},
                         {"AZURE_ACCOUNT_NAME", "account"},
                         {"AZURE_ACCOUNT_ACCESS_KEY", "a2V5"},
                         {"DATABRICKS_HOST", "dbc.cloud.databricks.com"},
                         {"DATABRICKS_TOKEN", "secret"}});
  const auto where = [&](const char* place) {
    const auto store = OpenStore(place, env);
    return store.ok() ? (*store)->Location("k") : std::string(store.status().message());
  };
  EXPECT_EQ(where("/tmp/x"), "/tmp/x/k");
  EXPECT_EQ(where("file:///tmp/x"), "/tmp/x/k");
  EXPECT_EQ(where("s3://bucket/runs/mine/"), "s3://bucket/runs/mine/k");
  EXPECT_EQ(where("s3://bucket"), "s3://bucket/k");
  EXPECT_EQ(where("gs://bucket/a"), "gs://bucket/a/k");
  EXPECT_EQ(where("oci://bucket@tenant/a"), "oci://bucket/a/k");
  EXPECT_THAT(where("oci://bucket/a"), HasSubstr("oci://bucket@namespace/prefix with OCI_KEY"));
  EXPECT_THAT(where("s3:///a"), HasSubstr("expected s3://bucket/prefix"));
  EXPECT_THAT(where("s3://bucket/../x"), HasSubstr("s3://bucket/../x"));
  EXPECT_EQ(where("azure://runs/mine/"), "azure://runs/mine/k");
  EXPECT_EQ(where("https://example.com:8443/a/b/"), "https://example.com:8443/a/b/k");
  EXPECT_EQ(where("http://example.com"), "http://example.com/k");
  EXPECT_EQ(where("dbfs:/Volumes/main/default/runs/mine"), "dbfs:/Volumes/main/default/runs/mine/k");
  EXPECT_THAT(where("dbfs:/Volumes/main"), HasSubstr("expected dbfs:/Volumes/catalog/schema/volume"));
  EXPECT_THAT(where("dbfs:/runs"), HasSubstr("expected dbfs:/Volumes/"));
  EXPECT_THAT(where("https://example.com/../x"), HasSubstr("not a storage key"));
  EXPECT_THAT(where("ftp://a/b"), HasSubstr("unknown scheme"));
  const auto unset = [](const char* place) {
    return std::string(OpenStore(place, Environment(std::map<std::string, std::string>())).status().message());
  };
  EXPECT_THAT(unset("azure://runs"), HasSubstr("AZURE_STORAGE_ACCOUNT"));
  EXPECT_THAT(unset("dbfs:/Volumes/a/b/c"), HasSubstr("DATABRICKS_HOST"));
  EXPECT_THAT(unset("oci://runs/a"), testing::AllOf(HasSubstr("/.oci/config"), HasSubstr("`oci setup config`")));
  EXPECT_FALSE(IsRemotePlace("file:///x"));
  EXPECT_TRUE(IsRemotePlace("dbfs:/Volumes/a/b/c"));
  EXPECT_TRUE(IsRemotePlace("s3://x"));
}

TEST(OpenStore, OraclesByTheUsersKey) {
  const TempDir home;
  ASSERT_TRUE(MakeDirs(home.Path(".oci")).ok());
  ASSERT_TRUE(AtomicWriteFile(home.Path("key.pem"), "PEM").ok());
  ASSERT_TRUE(AtomicWriteFile(home.Path(".oci/config"), absl::StrCat("[DEFAULT]\nuser=u\nfingerprint=f\ntenancy=t\n",
                                                                     "key_file=", home.Path("key.pem"), "\n"))
                  .ok());
  Environment env({{"HOME", home.path()}});
  EXPECT_THAT(std::string(OpenStore("oci://runs/mine", env).status().message()), HasSubstr("config: region: missing"));
  env.Set("OCI_REGION", "us-ashburn-1");
  for (const char* place : {"oci://runs/mine", "oci://runs@tenant/mine"})
    EXPECT_EQ(OpenStore(place, env).value()->Location("k"), "oci://runs/mine/k");
}

TEST(Retry, GrowsToTheCapWithinTheBudget) {
  const RetryPolicy policy{absl::Milliseconds(100), absl::Seconds(2), absl::Seconds(10), 8};
  EXPECT_EQ(*DelayBeforeRetry(policy, 1, absl::ZeroDuration(), 0.5), absl::Milliseconds(50));
  EXPECT_EQ(*DelayBeforeRetry(policy, 3, absl::ZeroDuration(), 1), absl::Milliseconds(400));
  EXPECT_EQ(*DelayBeforeRetry(policy, 7, absl::ZeroDuration(), 1), absl::Seconds(2));
  EXPECT_EQ(*DelayBeforeRetry(policy, 1, absl::ZeroDuration(), 0, absl::Seconds(3)), absl::Seconds(3));
  EXPECT_FALSE(DelayBeforeRetry(policy, 8, absl::ZeroDuration(), 0).has_value());
  EXPECT_FALSE(DelayBeforeRetry(policy, 2, absl::Seconds(9), 0, absl::Seconds(2)).has_value());
}

}  // namespace
}  // namespace composer

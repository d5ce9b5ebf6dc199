// Compares signatures with those of Oracle's own client (tests/golden/oci_signatures.json), and reads its files of
// keys.
// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/oci_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "storage/identity/oci_config.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;

std::string OciHeader(const HttpRequest& request, const std::string& name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(OciSignature, IsThatOfOraclesClient) {
  const auto golden = nlohmann::json::parse(ReadFile("tests/golden/oci_signatures.json").value());
  const absl::Time time = absl::FromCivil(absl::CivilSecond(2013, 5, 24), absl::UTCTimeZone());
  ASSERT_EQ(golden["keys"].size(), 2u);  // one has a pass phrase
  for (const auto& key : golden["keys"]) {
    const OciCredentials credentials{golden["tenancy"], golden["user"], golden["fingerprint"], key["private_key"],
                                     key["pass_phrase"]};
    ASSERT_EQ(key["requests"].size(), 7u);
    for (const auto& expected : key["requests"]) {
      const std::string body = expected["body"];
      const absl::string_view pieces[] = {body};
      HttpRequest request;
      request.method = expected["method"];
      request.origin = golden["origin"];
      request.path = expected["path"];
      for (const auto& [name, value] : expected["query"].items()) request.query.emplace_back(name, value);
      request.body = pieces;
      ASSERT_TRUE(SignOciRequest(credentials, time, request).ok());
      EXPECT_EQ(OciHeader(request, "authorization"), expected["authorization"].get<std::string>())
          << request.method << " " << request.path;
    }
  }
}

TEST(OciSignature, AKeyThatCannotBeReadIsAnError) {
  const auto golden = nlohmann::json::parse(ReadFile("tests/golden/oci_signatures.json").value());
  const std::string locked = golden["keys"][1]["private_key"];
  for (const auto& [key, phrase] : std::vector<std::pair<std::string, std::string>>{
           {"no key", ""}, {locked, ""}, {locked, "open wide"}, {"-----BEGIN PRIVATE KEY-----", ""}}) {
    HttpRequest request;
    request.origin = "https://host";
    const absl::Status status = SignOciRequest({"t", "u", "f", key, phrase}, absl::UnixEpoch(), request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("pass phrase"));
  }
}

class OciProfiles : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeDirs(home_.Path(".oci")).ok()); }
  void Config(const std::string& text) { ASSERT_TRUE(AtomicWriteFile(home_.Path(".oci/config"), text).ok()); }
  std::string Error() { return std::string(ReadOciProfile(env_).status().message()); }

  TempDir home_;
  Environment env_{{{"HOME", home_.path()}}};
};

TEST_F(OciProfiles, AProfileHasItsOwnSettingsAndTheCommonOnes) {
  ASSERT_TRUE(AtomicWriteFile(home_.Path("key.pem"), "PEM").ok());
  Config(
      "[DEFAULT]\nuser=u1\nfingerprint=f1\ntenancy=t1\nregion=us-ashburn-1\nkey_file=~/key.pem\n[TRAIN]\nuser = u2\n"
      "pass_phrase=secret\n");
  const auto common = ReadOciProfile(env_);
  ASSERT_TRUE(common.ok()) << common.status();
  EXPECT_EQ(common->credentials.user, "u1");
  EXPECT_EQ(common->credentials.private_key, "PEM");
  EXPECT_EQ(common->credentials.pass_phrase, "");
  env_.Set("OCI_CLI_PROFILE", "TRAIN");
  const auto train = ReadOciProfile(env_);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->credentials.user, "u2");
  EXPECT_EQ(train->credentials.tenancy, "t1");
  EXPECT_EQ(train->credentials.pass_phrase, "secret");
  EXPECT_EQ(train->region, "us-ashburn-1");
  env_.Set("OCI_CLI_PROFILE", "OTHER");
  EXPECT_THAT(Error(), HasSubstr(".oci/config [OTHER]: no such profile"));
}

TEST_F(OciProfiles, WhatIsMissingIsNamedWithTheFile) {
  EXPECT_THAT(Error(), HasSubstr(".oci/config"));
  Config("[DEFAULT]\nuser=u\nfingerprint=f\n");
  EXPECT_THAT(Error(), HasSubstr("[DEFAULT]: tenancy: missing"));
  Config("[DEFAULT]\nuser=u\nfingerprint=f\ntenancy=t\nkey_file=~/no.pem\n");
  EXPECT_THAT(Error(), HasSubstr("[DEFAULT]: key_file: "));
  Config("[DEFAULT]\nfingerprint=f\ntenancy=t\nkey_file=~/no.pem\nsecurity_token_file=~/token\n");
  EXPECT_THAT(Error(), HasSubstr("security_token_file: a session's token ends after an hour"));
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "storage/google_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;

// Answers each request with a token, and keeps what was sent.
class TokenServer final : public Http {
 public:
  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    urls.push_back(UrlOf(request));
    bodies.push_back(request.body.empty() ? "" : std::string(request.body[0]));
    if (refuses)
      return HttpResponse{400, {}, R"({"error": "invalid_grant", "error_description": "Account not found"})"};
    return HttpResponse{200, {}, R"({"access_token": "ya29", "expires_in": 3599, "token_type": "Bearer"})"};
  }
  bool refuses = false;
  std::vector<std::string> urls, bodies;
};

struct RsaKey {
  RsaKey() : key(EVP_RSA_gen(2048)) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
    char* data = nullptr;
    const auto size = BIO_get_mem_data(bio, &data);
    pem.assign(data, static_cast<size_t>(size));
    BIO_free(bio);
  }
  ~RsaKey() { EVP_PKEY_free(key); }
  bool Signed(const std::string& text, const std::string& signature) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, key);
    const int good =
        EVP_DigestVerify(context, reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                         reinterpret_cast<const unsigned char*>(text.data()), text.size());
    EVP_MD_CTX_free(context);
    return good == 1;
  }
  EVP_PKEY* key;
  std::string pem;
};

TEST(GoogleToken, AServiceAccountSignsWhoItIs) {
  const RsaKey key;
  const TempDir folder;
  const std::string file = folder.Path("key.json");
  const nlohmann::json account = {{"type", "service_account"},
                                  {"client_email", "trainer@project.iam.gserviceaccount.com"},
                                  {"private_key", key.pem},
                                  {"token_uri", "https://oauth2.example.com/token"}};
  ASSERT_TRUE(AtomicWriteFile(file, account.dump()).ok());
  TokenServer server;
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const auto token = FindGoogleToken(Environment({{"GOOGLE_APPLICATION_CREDENTIALS", file}}), server, now);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->token, "ya29");
  EXPECT_EQ(token->expires, now + absl::Seconds(3599));
  EXPECT_THAT(server.urls, testing::ElementsAre("https://oauth2.example.com/token"));
  const std::vector<std::string> form = absl::StrSplit(server.bodies[0], absl::ByAnyChar("=&"));
  ASSERT_EQ(form.size(), 4u) << server.bodies[0];
  EXPECT_EQ(form[3], "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer");
  const std::vector<std::string> parts = absl::StrSplit(form[1], '.');
  ASSERT_EQ(parts.size(), 3u);
  std::string claims, signature;
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[1], &claims) && absl::WebSafeBase64Unescape(parts[2], &signature));
  EXPECT_TRUE(key.Signed(absl::StrCat(parts[0], ".", parts[1]), signature));
  EXPECT_EQ(nlohmann::json::parse(claims),
            (nlohmann::json{{"iss", "trainer@project.iam.gserviceaccount.com"},
                            {"scope", "https://www.googleapis.com/auth/devstorage.read_write"},
                            {"aud", "https://oauth2.example.com/token"},
                            {"iat", 1'700'000'000},
                            {"exp", 1'700'003'600}}));
}

TEST(GoogleToken, WhatGcloudWroteIsRefreshed) {
  const TempDir folder;
  ASSERT_TRUE(MakeDirs(folder.Path(".config/gcloud")).ok());
  ASSERT_TRUE(
      AtomicWriteFile(folder.Path(".config/gcloud/application_default_credentials.json"),
                      R"({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"})")
          .ok());
  TokenServer server;
  ASSERT_TRUE(FindGoogleToken(Environment({{"HOME", folder.Path("")}}), server, absl::UnixEpoch()).ok());
  EXPECT_EQ(server.bodies[0], "client_id=c&client_secret=s&grant_type=refresh_token&refresh_token=r");
}

TEST(GoogleToken, WithoutAFileTheMachineIsAsked) {
  const TempDir folder;
  TokenServer server;
  const Environment env({{"HOME", folder.Path("")}, {"GCE_METADATA_HOST", "127.0.0.1:8080"}});
  ASSERT_TRUE(FindGoogleToken(env, server, absl::UnixEpoch()).ok());
  EXPECT_THAT(server.urls,
              testing::ElementsAre("http://127.0.0.1:8080/computeMetadata/v1/instance/service-accounts/default/token"));
  server.refuses = true;
  const absl::Status status = FindGoogleToken(env, server, absl::UnixEpoch()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), testing::AllOf(HasSubstr("GCS_KEY"), HasSubstr("Account not found")));
}

TEST(GoogleToken, FilesThatAreNoCredentialsAreErrorsWithTheirName) {
  const TempDir folder;
  const std::string file = folder.Path("key.json");
  TokenServer server;
  const Environment env({{"GOOGLE_APPLICATION_CREDENTIALS", file}});
  EXPECT_THAT(std::string(FindGoogleToken(env, server, absl::UnixEpoch()).status().message()), HasSubstr(file));
  for (const char* text : {"", "[]", R"({"type": "external_account"})",
                           R"({"type": "service_account", "client_email": "a", "private_key": "-----BEGIN"})"}) {
    ASSERT_TRUE(AtomicWriteFile(file, text).ok());
    const absl::Status status = FindGoogleToken(env, server, absl::UnixEpoch()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("key.json"));
  }
}

}  // namespace
}  // namespace composer

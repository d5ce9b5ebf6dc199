// Compares signatures with those of azure-storage-blob (tests/golden/azure_signatures.json).
// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/azure_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace composer {
namespace {

std::string HeaderOf(const HttpRequest& request, const std::string& name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(AzureSignature, IsThatOfMicrosoftsClient) {
  const auto golden = nlohmann::json::parse(ReadFile("tests/golden/azure_signatures.json").value());
  const AzureCredentials credentials{golden["account"], golden["key"], ""};
  const absl::Time time = absl::FromCivil(absl::CivilSecond(2013, 5, 24), absl::UTCTimeZone());
  ASSERT_EQ(golden["requests"].size(), 4u);
  for (const auto& expected : golden["requests"]) {
    const std::string body = expected["body"];
    const absl::string_view pieces[] = {body};
    HttpRequest request;
    request.method = expected["method"];
    request.path = expected["path"];
    for (const auto& [name, value] : expected["query"].items()) request.query.emplace_back(name, value);
    for (const auto& [name, value] : expected["headers"].items()) request.headers.emplace_back(name, value);
    request.body = pieces;
    ASSERT_TRUE(SignAzureRequest(credentials, time, request).ok());
    EXPECT_EQ(HeaderOf(request, "authorization"), expected["authorization"].get<std::string>()) << request.path;
  }
}

TEST(AzureSignature, ASharedAccessSignatureIsAddedToTheQuery) {
  HttpRequest request;
  request.path = "/runs/a";
  request.query = {{"comp", "list"}};
  ASSERT_TRUE(SignAzureRequest({"account", "", "?sv=2021-12-02&sig=a%2Bb%3D"}, absl::UnixEpoch(), request).ok());
  EXPECT_EQ(CanonicalQuery(request.query), "comp=list&sig=a%2Bb%3D&sv=2021-12-02");
  EXPECT_EQ(HeaderOf(request, "authorization"), "");
  EXPECT_EQ(HeaderOf(request, "x-ms-version"), "2021-12-02");
}

TEST(AzureSignature, AKeyThatIsNotBase64IsAnError) {
  HttpRequest request;
  const absl::Status status = SignAzureRequest({"account", "not base64!", ""}, absl::UnixEpoch(), request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace composer

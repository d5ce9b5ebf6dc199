// Uses the four examples of docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
// SPDX-License-Identifier: Apache-2.0
#include "storage/identity/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using testing::EndsWith;

const SigningKey kKey = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};

std::string Signed(HttpRequest request) {
  request.origin = "https://examplebucket.s3.amazonaws.com";
  const absl::Time time = absl::FromCivil(absl::CivilSecond(2013, 5, 24), absl::UTCTimeZone());
  SignRequest(kKey, {}, time, Sha256Hex(request.body), request);
  return request.headers.back().second;
}

TEST(SigV4, GetObject) {
  HttpRequest request;
  request.path = "/test.txt";
  request.headers = {{"range", "bytes=0-9"}};
  const std::string header = Signed(request);
  EXPECT_THAT(header, EndsWith("Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
  EXPECT_THAT(header, testing::HasSubstr("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
                                         "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"));
}

TEST(SigV4, PutObject) {
  const absl::string_view body[] = {"Welcome to ", "Amazon S3."};
  HttpRequest request;
  request.method = "PUT";
  request.path = "/test$file.text";
  request.headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  request.body = body;
  EXPECT_THAT(Signed(request), EndsWith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SigV4, GetBucketLifecycle) {
  HttpRequest request;
  request.path = "/";
  request.query = {{"lifecycle", ""}};
  EXPECT_THAT(Signed(request), EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(SigV4, ListObjects) {
  HttpRequest request;
  request.path = "/";
  request.query = {{"prefix", "J"}, {"max-keys", "2"}};
  EXPECT_THAT(Signed(request), EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SigV4, TheSessionTokenIsSigned) {
  HttpRequest request;
  request.path = "/k";
  request.origin = "https://b.example";
  SignRequest({"id", "secret", "token"}, {}, absl::UnixEpoch(), kUnsignedPayload, request);
  EXPECT_THAT(request.headers.back().second, testing::HasSubstr("x-amz-security-token"));
}

TEST(UriEncode, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(UriEncode("aZ9-._~/ +=%\xc3\xa4", true), "aZ9-._~/%20%2B%3D%25%C3%A4");
  EXPECT_EQ(UriEncode("a/b", false), "a%2Fb");
  EXPECT_EQ(CanonicalQuery({{"b", "1 2"}, {"a-", "x"}, {"a", ""}}), "a=&a-=x&b=1%202");
}

}  // namespace
}  // namespace composer

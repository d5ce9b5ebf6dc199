// Tests who gets an answer at the rendezvous port, and who does not.
// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/transport/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/open_channel.h"
#include "rendezvous/transport/openssl_handles.h"
#include "rendezvous/transport/tls_files.h"
#include "rendezvous/transport/token_check.h"
#include "tests/rendezvous/test_authority.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kOtherToken[] = "0123456789abcdef0123456789abcdeF";

Credentials OfToken(absl::string_view token) { return Credentials::FromToken(token, "the test", absl::Now()).value(); }

std::unique_ptr<RendezvousServer> StartServer(const Credentials& credentials) {
  auto server = RendezvousServer::Start({.job = "job", .credentials = credentials});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string AddressOf(const RendezvousServer& server) { return absl::StrCat("127.0.0.1:", server.port()); }

// Makes a key-value call of another job: ABORTED means that the service answered it.
absl::Status Call(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = proto::KeyValue::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(absl::Seconds(20)));
  proto::CountRequest request;
  request.mutable_caller()->set_job("another job");
  proto::CountReply reply;
  return FromGrpc(stub->Count(&context, request, &reply));
}

absl::Status ConnectAndCall(const std::string& address, const Credentials& credentials) {
  const auto channel = OpenChannel(address, credentials, absl::Seconds(20));
  return channel.ok() ? Call(*channel) : channel.status();
}

TEST(Credentials, TheSameTokenOnBothSidesIsAnswered) {
  const auto server = StartServer(OfToken(kToken));
  EXPECT_EQ(ConnectAndCall(AddressOf(*server), OfToken(kToken)).code(), absl::StatusCode::kAborted);
}

TEST(Credentials, AnotherTokenIsNotAndTheReasonIsNamedAtOnce) {
  const auto server = StartServer(OfToken(kToken));
  const absl::Time began = absl::Now();
  const absl::Status status = ConnectAndCall(AddressOf(*server), OfToken(kOtherToken));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(AddressOf(*server)), HasSubstr("another token"), HasSubstr("the token of the test")));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kOtherToken)));
  EXPECT_LT(absl::Now() - began, absl::Seconds(15));  // less than the 20 s for which a server is waited for
}

TEST(Credentials, NoTokenIsNot) {
  const auto server = StartServer(OfToken(kToken));
  const absl::Status status = ConnectAndCall(AddressOf(*server), Credentials());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("this side has none"));
}

TEST(Credentials, AServerWithoutTokenIsNotTrustedByANodeThatHasOne) {
  const auto server = StartServer(Credentials());
  const absl::Status status = ConnectAndCall(AddressOf(*server), OfToken(kToken));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("speaks no TLS"));
}

TEST(Credentials, NobodyThereIsNoQuestionOfCredentials) {
  const int port = StartServer(Credentials())->port();  // the server is gone by now
  const auto channel = OpenChannel(absl::StrCat("127.0.0.1:", port), OfToken(kToken), absl::Milliseconds(400));
  EXPECT_EQ(channel.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(channel.status().message()), HasSubstr("Connection refused"));
  const auto no_name = OpenChannel("no-such-host.invalid:1", OfToken(kToken), absl::Milliseconds(400));
  EXPECT_THAT(std::string(no_name.status().message()), HasSubstr("no-such-host.invalid has no address"));
}

TEST(Credentials, TokensHaveALength) {
  EXPECT_EQ(Credentials::FromToken("short", "x", absl::Now()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Credentials::FromToken(std::string(5000, 'x'), "x", absl::Now()).ok());
}

TEST(Credentials, SecretsDependOnTheTokenAlone) {
  const TokenSecrets one = DeriveSecrets(kToken).value(), same = DeriveSecrets(kToken).value();
  EXPECT_EQ(one.authority_seed, same.authority_seed);
  EXPECT_EQ(one.call_token, same.call_token);
  const TokenSecrets other = DeriveSecrets(kOtherToken).value();
  EXPECT_NE(one.authority_seed, other.authority_seed);
  EXPECT_NE(one.call_token, other.call_token);
  EXPECT_THAT(one.call_token, Not(HasSubstr(kToken)));
}

// With the right certificates and a wrong or missing token, the connection is established but no call is answered.
class CallTokenTest : public ::testing::Test {
 protected:
  TempDir dir_;
  TestAuthority authority_{dir_, "ca"};
  const TlsFiles files_ = authority_.Issue("node", "127.0.0.1", absl::Hours(1));
  Credentials Files(absl::string_view token) {
    auto result = Credentials::FromFiles(files_, token, absl::Now());
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
};

TEST_F(CallTokenTest, EveryServiceAsksForIt) {
  grpc::EnableDefaultHealthCheckService(true);
  const auto server = StartServer(Files(kToken));
  grpc::EnableDefaultHealthCheckService(false);
  EXPECT_EQ(ConnectAndCall(AddressOf(*server), Files(kToken)).code(), absl::StatusCode::kAborted);
  for (const char* token : {"", kOtherToken}) {
    const auto channel = OpenChannel(AddressOf(*server), Files(token), absl::Seconds(20));
    ASSERT_TRUE(channel.ok()) << channel.status();
    EXPECT_EQ(Call(*channel).code(), absl::StatusCode::kUnauthenticated);
    // A stream, and a method that does not exist, get the same answer, which reveals nothing.
    const auto stub = proto::Rendezvous::NewStub(*channel);
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(absl::Seconds(20)));
    const auto stream = stub->Attend(&context);
    proto::CoordinatorMessage message;
    EXPECT_FALSE(stream->Read(&message));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
    for (const char* method : {"/grpc.health.v1.Health/Check", "/no.such/Method"}) {
      EXPECT_EQ(CallRaw(*channel, method), grpc::StatusCode::UNAUTHENTICATED) << method;
    }
  }
}

TEST(TokenCheck, ComparesWhole) {
  EXPECT_TRUE(EqualInConstantTime("abc", "abc"));
  EXPECT_FALSE(EqualInConstantTime("abc", "abcd"));
  EXPECT_FALSE(EqualInConstantTime("abc", ""));
  EXPECT_TRUE(EqualInConstantTime("", ""));
}

// The user provides the certificates.
class TlsFilesTest : public ::testing::Test {
 protected:
  TempDir dir_;
  TestAuthority authority_{dir_, "ca"};
  TestAuthority stranger_{dir_, "stranger"};
};

TEST_F(TlsFilesTest, AnotherAuthorityIsRefusedOnBothSides) {
  const auto ours = Credentials::FromFiles(authority_.Issue("n", "127.0.0.1", absl::Hours(1)), "", absl::Now()).value();
  const auto theirs =
      Credentials::FromFiles(stranger_.Issue("s", "127.0.0.1", absl::Hours(1)), "", absl::Now()).value();
  const auto server = StartServer(ours);
  EXPECT_EQ(ConnectAndCall(AddressOf(*server), ours).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ConnectAndCall(AddressOf(*server), theirs).code(), absl::StatusCode::kUnauthenticated);
  // A client that trusts the server but shows a stranger's certificate is refused by the server.
  TlsFiles mixed = stranger_.Issue("mixed", "127.0.0.1", absl::Hours(1));
  const std::string both = dir_.Path("both.pem");
  ASSERT_TRUE(AtomicWriteFile(both, *ReadFile(authority_.path()) + *ReadFile(stranger_.path())).ok());
  mixed.authority = both;
  const absl::Status status =
      ConnectAndCall(AddressOf(*server), Credentials::FromFiles(mixed, "", absl::Now()).value());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not accept the certificate in"));
}

TEST_F(TlsFilesTest, TheNameInTheCertificateCounts) {
  TlsFiles files = authority_.Issue("n", "trainer.example", absl::Hours(1));
  const auto server = StartServer(Credentials::FromFiles(files, "", absl::Now()).value());
  const absl::Status status =
      ConnectAndCall(AddressOf(*server), Credentials::FromFiles(files, "", absl::Now()).value());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not for `127.0.0.1`"));
  files.server_name = "trainer.example";
  EXPECT_EQ(ConnectAndCall(AddressOf(*server), Credentials::FromFiles(files, "", absl::Now()).value()).code(),
            absl::StatusCode::kAborted);
}

TEST_F(TlsFilesTest, MistakesNameTheFile) {
  const TlsFiles good = authority_.Issue("good", "127.0.0.1", absl::Hours(1));
  const TlsFiles expired = authority_.Issue("expired", "127.0.0.1", -absl::Hours(1));
  TlsFiles files = good;
  const auto error = [&] { return std::string(Credentials::FromFiles(files, "", absl::Now()).status().message()); };
  files.key = expired.key;
  EXPECT_THAT(error(), HasSubstr(absl::StrCat("--tls-key: ", expired.key, " is not the key of the certificate")));
  EXPECT_THAT(std::string(Credentials::FromFiles(expired, "", absl::Now()).status().message()),
              AllOf(HasSubstr(expired.certificate), HasSubstr("expired")));
  files = good;
  files.authority = stranger_.path();
  EXPECT_THAT(error(), AllOf(HasSubstr(good.certificate), HasSubstr(stranger_.path())));
  files = good;
  files.certificate = dir_.Path("none.pem");
  EXPECT_THAT(error(), AllOf(HasSubstr("--tls-cert"), HasSubstr("none.pem")));
  ASSERT_TRUE(AtomicWriteFile(files.certificate, "no certificate").ok());
  EXPECT_THAT(error(), HasSubstr("none.pem holds no PEM certificate"));
}

// A certificate expires while the server runs, and a rotation fixes it without a restart.
TEST_F(TlsFilesTest, RotationIsPickedUpAndAnExpiredCertificateRefused) {
  const TlsFiles server_files = authority_.Issue("server", "127.0.0.1", absl::Hours(1));
  const TlsFiles client_files = authority_.Issue("client", "127.0.0.1", absl::Hours(1));
  const auto of_client = Credentials::FromFiles(client_files, "", absl::Now()).value();
  const auto of_server = Credentials::FromFiles(server_files, "", absl::Now(), absl::Seconds(1)).value();
  const auto server = StartServer(of_server);
  EXPECT_EQ(ConnectAndCall(AddressOf(*server), of_client).code(), absl::StatusCode::kAborted);
  const auto becomes = [&](absl::StatusCode wanted) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    absl::Status last;
    while (absl::Now() < deadline && (last = ConnectAndCall(AddressOf(*server), of_client)).code() != wanted) {
      absl::SleepFor(absl::Milliseconds(100));
    }
    return last;
  };
  authority_.Issue("server", "127.0.0.1", -absl::Hours(1));  // the same files
  const absl::Status expired = becomes(absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(expired.message()), HasSubstr("expired"));
  authority_.Issue("server", "127.0.0.1", absl::Hours(2));
  EXPECT_EQ(becomes(absl::StatusCode::kAborted).code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace composer

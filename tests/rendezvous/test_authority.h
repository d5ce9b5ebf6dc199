// Certificates for tests, made with the openssl program, as a user would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "rendezvous/transport/credentials.h"
#include "rendezvous/transport/grpc_settings.h"
#include "tests/support/temp_dir.h"

namespace composer {

class TestAuthority {
 public:
  TestAuthority(const TempDir& dir, const std::string& name) : dir_(dir), name_(name) {
    Run(absl::StrCat("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=", name,
                     " -keyout ", Path(".key"), " -out ", Path(".pem")));
  }

  std::string path() const { return Path(".pem"); }

  // Issues `subject`.pem and .key for a DNS name or an IPv4 address, replaced by renames, valid until now + `left`.
  TlsFiles Issue(const std::string& subject, const std::string& host, absl::Duration left) const {
    const std::string base = dir_.Path(absl::StrCat(name_, "-", subject));
    const bool ip = absl::EndsWith(host, ".1");
    const auto stamp = [](absl::Time t) { return absl::FormatTime("%Y%m%d%H%M%SZ", t, absl::UTCTimeZone()); };
    EXPECT_TRUE(AtomicWriteFile(base + ".ext", absl::StrCat("subjectAltName=", ip ? "IP:" : "DNS:", host, "\n")).ok());
    EXPECT_TRUE(MakeDirs(base + ".db").ok());
    EXPECT_TRUE(AtomicWriteFile(base + ".db/index", "").ok());
    EXPECT_TRUE(
        AtomicWriteFile(
            base + ".cnf",
            absl::StrCat(
                "[ca]\ndefault_ca=d\n[d]\ndatabase=", base, ".db/index\nnew_certs_dir=", base,
                ".db\nrand_serial=yes\ndefault_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n"))
            .ok());
    Run(absl::StrCat("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=", subject, " -keyout ",
                     base, ".new.key -out ", base, ".csr"));
    Run(absl::StrCat("openssl ca -batch -notext -config ", base, ".cnf -cert ", Path(".pem"), " -keyfile ",
                     Path(".key"), " -startdate ", stamp(absl::Now() - absl::Hours(48)), " -enddate ",
                     stamp(absl::Now() + left), " -extfile ", base, ".ext -in ", base, ".csr -out ", base, ".new.pem"));
    EXPECT_EQ(rename((base + ".new.key").c_str(), (base + ".key").c_str()), 0);
    EXPECT_EQ(rename((base + ".new.pem").c_str(), (base + ".pem").c_str()), 0);
    return {.certificate = base + ".pem", .key = base + ".key", .authority = path()};
  }

 private:
  std::string Path(absl::string_view suffix) const { return dir_.Path(absl::StrCat(name_, suffix)); }
  static void Run(const std::string& command) {
    ASSERT_EQ(std::system((command + " 2>/dev/null").c_str()), 0) << command;
  }

  const TempDir& dir_;
  const std::string name_;
};

// Returns the status of an empty unary call of any method.
inline grpc::StatusCode CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(absl::Seconds(20)));
  grpc::CompletionQueue queue;
  grpc::ByteBuffer request, reply;
  grpc::Slice empty;
  request = grpc::ByteBuffer(&empty, 1);
  auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status.error_code();
}

}  // namespace composer

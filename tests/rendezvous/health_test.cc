// Calls grpc.health.v1 on the rendezvous as a probe does: by name, with messages as bytes, since Debian ships no stubs.
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "rendezvous/server.h"

namespace composer {
namespace {

// Returns the reply's bytes, or the status code as text when the call failed. A request is {string service = 1}, a
// reply {enum status = 1}.
std::string Check(int port, const std::string& service) {
  grpc::GenericStub stub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  std::string bytes;
  if (!service.empty()) bytes = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return absl::StrCat("error ", status.error_code());
  std::vector<grpc::Slice> slices;
  reply.Dump(&slices).ok();
  std::string text;
  for (const grpc::Slice& part : slices) text.append(part.begin(), part.end());
  return text;
}

TEST(HealthTest, TheRendezvousServes) {
  const auto server = RendezvousServer::Start({.job = "job"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string serving = {0x08, 0x01};
  EXPECT_EQ(Check((*server)->port(), ""), serving);
  EXPECT_EQ(Check((*server)->port(), "composer.Rendezvous"), serving);
  EXPECT_EQ(Check((*server)->port(), "nothing"), absl::StrCat("error ", static_cast<int>(grpc::StatusCode::NOT_FOUND)));
}

}  // namespace
}  // namespace composer

// A world with a real rendezvous in this process, for tests of what is built on its key-value store.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"
#include "rendezvous/store/key_value_proxy.h"
#include "rendezvous/transport/grpc_settings.h"
#include "tests/support/temp_dir.h"
#include "worker/store.h"

namespace composer::testing {

// Generation 1 of job "job". The store is reached the way workers reach it: through a launcher's proxy on a Unix
// socket.
class StoreWorld {
 public:
  StoreWorld() {
    server_ = *RendezvousServer::Start({.job = "job"});
    RendezvousClient::Options options;
    options.address = absl::StrCat("127.0.0.1:", server_->port());
    options.job = "job";
    options.incarnation = "launcher";
    options.node.set_node_id("n0");
    options.node.set_slots(3);
    client_ = *RendezvousClient::Connect(options);
    EXPECT_TRUE(client_->Join(absl::Seconds(20)).ok());
    proxy_ = std::make_unique<KeyValueProxy>(std::make_shared<KeyValueUpstream>("launcher", client_->channel()));
    const std::string address = absl::StrCat("unix:", folder_.path(), "/hub");
    grpc::ServerBuilder builder;
    ApplyServerSettings(builder, Link::kLocal);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(proxy_.get());
    proxy_server_ = builder.BuildAndStart();
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), ChannelSettings(Link::kLocal));
  }

  c10::intrusive_ptr<c10d::Store> NewStore(std::chrono::milliseconds timeout = std::chrono::seconds(20),
                                           uint64_t generation = 1) {
    proto::Caller caller;
    caller.set_job("job");
    caller.set_generation(generation);
    caller.set_incarnation("worker");
    return c10::make_intrusive<RendezvousStore>(channel_, caller, timeout);
  }

  void EndGeneration(const std::string& why) {
    proto::FailureCause cause;
    cause.set_message(why);
    EXPECT_TRUE(client_->ReportGenerationEnded(cause).ok());
  }

 private:
  TempDir folder_;
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<RendezvousClient> client_;
  std::unique_ptr<KeyValueProxy> proxy_;
  std::unique_ptr<grpc::Server> proxy_server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace composer::testing

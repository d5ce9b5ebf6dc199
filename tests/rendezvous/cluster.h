// A rendezvous over real gRPC for tests: its server, nodes and key-value calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {

inline constexpr absl::Duration kLong = absl::Seconds(20);

inline std::unique_ptr<RendezvousServer> StartServer(int min_nodes, int max_nodes) {
  auto server = RendezvousServer::Start({.job = "job",
                                         .min_nodes = min_nodes,
                                         .max_nodes = max_nodes,
                                         .last_call = absl::Milliseconds(50),
                                         .clock = &RealClock::Get()});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

inline RendezvousClient::Options NodeOptions(const RendezvousServer& server, int rank) {
  RendezvousClient::Options options;
  options.address = absl::StrCat("127.0.0.1:", server.port());
  options.job = "job";
  options.incarnation = absl::StrCat("i", rank);
  options.node.set_node_id(absl::StrCat("n", rank));
  options.node.set_node_rank(rank);
  options.node.set_hostname(absl::StrCat("host", rank));
  options.node.set_slots(2);
  return options;
}

inline std::unique_ptr<RendezvousClient> Connect(RendezvousClient::Options options) {
  auto client = RendezvousClient::Connect(std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// Joins several nodes at once. Returns their worlds in the order of the clients.
inline std::vector<proto::World> JoinAll(const std::vector<RendezvousClient*>& clients) {
  std::vector<proto::World> worlds(clients.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      auto world = clients[i]->Join(kLong);
      EXPECT_TRUE(world.ok()) << world.status();
      if (world.ok()) worlds[i] = *std::move(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return worlds;
}

inline proto::Caller CallerOf(uint64_t generation) {
  proto::Caller caller;
  caller.set_job("job");
  caller.set_generation(generation);
  caller.set_incarnation("worker");
  return caller;
}

inline absl::Status Get(proto::KeyValue::StubInterface& stub, uint64_t generation, const std::string& key,
                        absl::Duration wait, std::string* value) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kLong));
  proto::GetRequest request;
  *request.mutable_caller() = CallerOf(generation);
  request.add_keys(key);
  request.set_wait_millis(absl::ToInt64Milliseconds(wait));
  proto::GetReply reply;
  const grpc::Status status = stub.Get(&context, request, &reply);
  if (status.ok() && value != nullptr) *value = reply.values(0);
  return FromGrpc(status);
}

inline absl::Status Set(proto::KeyValue::StubInterface& stub, const proto::Caller& caller, const std::string& key,
                        const std::string& value) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(kLong));
  proto::SetRequest request;
  *request.mutable_caller() = caller;
  proto::KeyAndValue& entry = *request.add_entries();
  entry.set_key(key);
  entry.set_value(value);
  proto::SetReply reply;
  return FromGrpc(stub.Set(&context, request, &reply));
}

}  // namespace composer

// The rendezvous key-value store as a c10d::Store: its calls go over gRPC, in a worker to its launcher's Unix socket.
//
// Behaves like c10d::HashStore, with the keys of one generation. Every call throws c10::DistStoreError when a key did
// not appear in time, when the generation is over (the message says which and why) and when the store is gone;
// c10::ValueError for keys or values past the limits (rendezvous/store/key_value.h). Queues and listKeys throw
// c10::NotImplementedError.
// Calls may come from any thread; setTimeout is not synchronised with them (as in c10d).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "proto/rendezvous.grpc.pb.h"

namespace composer {

class RendezvousStore final : public c10d::Store {
 public:
  using Bytes = std::vector<uint8_t>;
  using Millis = std::chrono::milliseconds;

  // `caller` holds the job and generation of the world and the incarnation of this process. kNoTimeout waits as long as
  // the generation lasts. write_once: the keys read through this store never change once set (a process group's
  // addresses), so the launcher may answer for the store, and a mesh of N ranks reads N keys per node instead of N per
  // rank.
  RendezvousStore(std::shared_ptr<grpc::Channel> channel, proto::Caller caller, Millis timeout = kDefaultTimeout,
                  bool write_once = false);

  using c10d::Store::compareSet;
  using c10d::Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override;
  Bytes get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const Millis& timeout) override;
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override;
  // append is c10d's own, implemented with compareSet.
  bool hasExtendedApi() const override { return true; }

 private:
  template <typename Request, typename Reply>
  using Method = grpc::Status (proto::KeyValue::Stub::*)(grpc::ClientContext*, const Request&, Reply*);
  template <typename Request, typename Reply>
  Reply Call(const char* what, Method<Request, Reply> method, Request& request, Millis timeout);
  proto::GetReply Fetch(const std::vector<std::string>& keys, bool with_values, Millis timeout);

  const std::shared_ptr<grpc::Channel> channel_;
  const proto::Caller caller_;
  const bool write_once_;
  const std::unique_ptr<proto::KeyValue::Stub> stub_;
};

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_value_sweep.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// One call; deletes itself.
class Sweep {
 public:
  Sweep(std::shared_ptr<KeyValueUpstream> upstream, const proto::Caller& caller, std::vector<std::string> keys)
      : upstream_(std::move(upstream)), stub_(upstream_->stub()), keys_(std::move(keys)) {
    *request_.mutable_caller() = caller;
    request_.mutable_keys()->Assign(keys_.begin(), keys_.end());
    context_.set_deadline(DeadlineAfter(kPatience));
    stub_->async()->Check(&context_, &request_, &reply_, [this](const grpc::Status& status) { Take(status); });
  }

 private:
  void Take(const grpc::Status& status) {
    std::vector<std::string> absent;
    if (status.ok()) {
      for (const uint32_t place : reply_.absent()) {
        if (place < keys_.size()) absent.push_back(std::move(keys_[place]));
      }
    }
    upstream_->Forget(request_.caller().generation(), absent, reply_.revision());
    delete this;
  }

  const std::shared_ptr<KeyValueUpstream> upstream_;
  const std::shared_ptr<proto::KeyValue::Stub> stub_;  // outlives its call
  std::vector<std::string> keys_;
  grpc::ClientContext context_;
  proto::CheckRequest request_;
  proto::CheckReply reply_;
};

}  // namespace

void ForgetDeletedKeys(const std::shared_ptr<KeyValueUpstream>& upstream, const proto::Caller& caller) {
  std::vector<std::string> keys = upstream->TakeKeysToCheck(caller.generation());
  if (!keys.empty()) new Sweep(upstream, caller, std::move(keys));
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/exit_barrier.h"

#include <utility>

#include "absl/time/clock.h"
#include "base/retry.h"
#include "base/status_macros.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr char kCountKey[] = "launcher/done", kAllKey[] = "launcher/all-done";
constexpr absl::Duration kCallLimit = absl::Hours(24 * 365);  // another node's last checkpoint may take long
constexpr absl::Duration kStoreAbsence = absl::Seconds(60);   // while the rendezvous restarts

}  // namespace

ExitBarrier::ExitBarrier(std::shared_ptr<grpc::Channel> store, std::string job)
    : store_(std::move(store)), job_(std::move(job)) {}

ExitBarrier::~ExitBarrier() {
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (running_ != nullptr) running_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

void ExitBarrier::Arrive(uint64_t generation, int nodes, std::function<void(absl::Status)> answer) {
  if (thread_.joinable()) thread_.join();  // it has answered
  thread_ =
      std::thread([this, generation, nodes, answer = std::move(answer)] { answer(WaitForAll(generation, nodes)); });
}

// Makes one call, retrying while the store is away.
template <typename Call>
absl::Status ExitBarrier::Try(Call call) {
  RetryPolicy policy = kWhileAway;
  policy.budget = kStoreAbsence;
  const absl::Time began = absl::Now();
  for (int tries = 1;; ++tries) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kCallLimit));
    {
      absl::MutexLock lock(&mutex_);
      if (cancelled_) return absl::CancelledError("the launcher ends");
      running_ = &context;
    }
    const absl::Status status = FromGrpc(call(&context));
    absl::MutexLock lock(&mutex_);
    running_ = nullptr;
    const auto delay = DelayBeforeRetry(policy, tries, absl::Now() - began, UniformRandom());
    if (!absl::IsUnavailable(status) || !delay.has_value()) return status;
    mutex_.AwaitWithTimeout(absl::Condition(&cancelled_), *delay);
  }
}

absl::Status ExitBarrier::WaitForAll(uint64_t generation, int nodes) {
  const auto stub = proto::KeyValue::NewStub(store_);
  const auto sign = [&](auto& request) {
    request.mutable_caller()->set_job(job_);
    request.mutable_caller()->set_generation(generation);
  };
  proto::AddRequest add;
  sign(add);
  add.set_key(kCountKey);
  add.set_amount(1);
  proto::AddReply count;
  RETURN_IF_ERROR(Try([&](grpc::ClientContext* context) { return stub->Add(context, add, &count); }));
  if (count.value() >= nodes) {
    proto::SetRequest set;
    sign(set);
    set.add_entries()->set_key(kAllKey);
    proto::SetReply ignored;
    return Try([&](grpc::ClientContext* context) { return stub->Set(context, set, &ignored); });
  }
  proto::GetRequest get;
  sign(get);
  get.add_keys(kAllKey);
  get.set_wait_millis(-1);  // waits as long as the generation lasts
  proto::GetReply ignored;
  return Try([&](grpc::ClientContext* context) { return stub->Get(context, get, &ignored); });
}

}  // namespace composer

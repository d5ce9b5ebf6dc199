// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/host_communicator.h"

#include <ATen/ATen.h>
#include <pthread.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/collectives/abandon.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

const TraceName& SpanOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return kAllGatherSpan;
    case CollectiveKind::kReduceScatter:
      return kReduceScatterSpan;
    case CollectiveKind::kBroadcast:
      return kBroadcastSpan;
    case CollectiveKind::kNone:
    case CollectiveKind::kAllReduce:
      break;
  }
  return kAllReduceSpan;
}

}  // namespace

struct HostCommunicator::Task {
  CollectiveCall call;
  at::Tensor output, input;  // they keep the memory alive
  bool done = false;
  std::exception_ptr error;
};

// An AbortGroup has the groups of one rank: the first group and those split off from it.
class HostCommunicator::AbortGroup {
 public:
  void Join(HostTransport& transport) {
    const std::lock_guard<std::mutex> lock(mutex_);
    transports_.push_back(&transport);
    if (!failure_.empty()) transport.Abort();
  }
  void Leave(const HostTransport& transport) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase(transports_, &transport);
  }
  // Records that a collective of one of them has failed. Returns the cause: for a group that was aborted, the first
  // failure.
  std::string Fail(const HostTransport& transport, const std::string& failure) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed_ == &transport || !failure_.empty()) return failed_ == &transport ? failure : failure_;
    failed_ = &transport;
    failure_ = failure;
    for (HostTransport* other : transports_) {
      if (other != &transport) other->Abort();
    }
    return failure;
  }

 private:
  std::mutex mutex_;
  std::vector<HostTransport*> transports_;
  const HostTransport* failed_ = nullptr;  // the first transport that failed
  std::string failure_;
};

class HostCommunicator::Pending final : public PendingCollective {
 public:
  Pending(HostCommunicator& owner, std::shared_ptr<Task> task) : owner_(owner), task_(std::move(task)) {}
  void Wait() override {
    const TraceSpan span(owner_.tracer(), kCollectiveWaitSpan);
    owner_.Work(task_.get());
    if (task_->error != nullptr) std::rethrow_exception(task_->error);
  }

 private:
  HostCommunicator& owner_;
  std::shared_ptr<Task> task_;
};

HostCommunicator::HostCommunicator(std::unique_ptr<HostTransport> transport, Options options, GroupFactory new_group,
                                   std::string name)
    : HostCommunicator(std::move(transport), options, std::move(new_group), std::move(name),
                       std::make_shared<AbortGroup>()) {}

HostCommunicator::HostCommunicator(std::unique_ptr<HostTransport> transport, Options options, GroupFactory new_group,
                                   std::string name, std::shared_ptr<AbortGroup> abort_group)
    : transport_(std::move(transport)),
      options_(options),
      new_group_(std::move(new_group)),
      name_(std::move(name)),
      abort_group_(std::move(abort_group)) {
  abort_group_->Join(*transport_);
}

HostCommunicator::~HostCommunicator() {
  abort_group_->Leave(*transport_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    queue_.clear();
    if (running_) transport_->Abort();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<PendingCollective> HostCommunicator::StartAllReduceSum(at::Tensor tensor) {
  CheckContiguous(NameOf(CollectiveKind::kAllReduce), tensor);
  CountAllReduce(tensor);
  return Start(CollectiveKind::kAllReduce, tensor, tensor);
}

std::unique_ptr<PendingCollective> HostCommunicator::StartAllGather(at::Tensor output, at::Tensor input) {
  CheckParts(NameOf(CollectiveKind::kAllGather), output, input, world_size());
  CountParts(output);
  return Start(CollectiveKind::kAllGather, std::move(output), std::move(input));
}

std::unique_ptr<PendingCollective> HostCommunicator::StartReduceScatterSum(at::Tensor output, at::Tensor input) {
  CheckParts(NameOf(CollectiveKind::kReduceScatter), input, output, world_size());
  CountParts(input);
  return Start(CollectiveKind::kReduceScatter, std::move(output), std::move(input));
}

void HostCommunicator::Broadcast(at::Tensor tensor, int root) {
  CheckContiguous(NameOf(CollectiveKind::kBroadcast), tensor);
  CountBroadcast(tensor, root);
  Start(CollectiveKind::kBroadcast, tensor, tensor, root)->Wait();
}

std::unique_ptr<PendingCollective> HostCommunicator::Start(CollectiveKind kind, at::Tensor output, at::Tensor input,
                                                           int root) {
  TORCH_CHECK_VALUE(output.is_cpu() && input.is_cpu(), NameOf(kind), " over host memory of a tensor on ",
                    output.device());
  auto task = std::make_shared<Task>();
  const at::Tensor& small = kind == CollectiveKind::kAllGather ? input : output;
  task->call = {kind, small.scalar_type(), root, small.numel(), num_collectives(), TakeUnit()};
  bool at_once = static_cast<int64_t>(std::max(output.nbytes(), input.nbytes())) <= options_.inline_bytes;
  task->output = std::move(output);
  task->input = std::move(input);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    at_once = at_once && queue_.empty() && !running_;
    queue_.push_back(task);
    if (!at_once && !thread_.joinable()) {
      thread_ = std::thread([this] {
        pthread_setname_np(pthread_self(), "collectives");
        Work(nullptr);
      });
    }
  }
  if (at_once) {
    Work(task.get());
  } else {
    changed_.notify_all();
  }
  return std::make_unique<Pending>(*this, std::move(task));
}

void HostCommunicator::set_tracer(Tracer* tracer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Communicator::set_tracer(tracer);
}

void HostCommunicator::Run(Task& task, std::unique_lock<std::mutex>& lock) {
  try {
    Tracer* const began = tracer();
    const Tracer::Span span = began == nullptr ? 0 : began->Begin(SpanOf(task.call.kind));
    lock.unlock();
    transport_->Run(task.call, task.input.const_data_ptr(), task.output.mutable_data_ptr());
    lock.lock();
    if (began != nullptr && began == tracer()) began->End(span);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    const absl::Status status = StatusFromCurrentException();
    task.error = std::make_exception_ptr(StatusError(absl::Status(
        status.code(), absl::StrCat(NameOf(task.call.kind), " number ", task.call.sequence, " failed on rank ", rank(),
                                    " of ", world_size(), name_.empty() ? "" : absl::StrCat(" of group ", name_), ", ",
                                    c10::toString(task.call.dtype), " [", absl::StrJoin(task.output.sizes(), ", "),
                                    "]: ", abort_group_->Fail(*transport_, std::string(status.message()))))));
  }
}

void HostCommunicator::Work(const Task* until) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (until == nullptr ? !stop_ : !until->done) {
    if (running_ || queue_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const std::shared_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    if (broken_ != nullptr) {
      task->error = broken_;
    } else {
      Run(*task, lock);
      broken_ = task->error;
    }
    if (transport_->abandoned()) Abandon(std::pair(task->output, task->input));
    task->output.reset();
    task->input.reset();
    task->done = true;
    running_ = false;
    changed_.notify_all();
  }
}

std::unique_ptr<Communicator> HostCommunicator::NewGroup(const std::string& name, int rank, int size) {
  TORCH_CHECK(new_group_ != nullptr, "this group of ranks cannot be split: no store to meet at");
  const std::string full_name = name_.empty() ? name : absl::StrCat(name_, "/", name);
  return std::unique_ptr<Communicator>(
      new HostCommunicator(new_group_(full_name, rank, size), options_, new_group_, full_name, abort_group_));
}

}  // namespace composer

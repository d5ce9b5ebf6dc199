// SPDX-License-Identifier: Apache-2.0
#include "worker/agent.h"

#include <unistd.h>

#include <cstdio>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "contract/exit_code.h"
#include "proto/worker.grpc.pb.h"

namespace composer {
namespace {

// Returns 0 when the kernel does not report it.
int64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long total = 0, resident = 0;
  const int fields = std::fscanf(file, "%lld %lld", &total, &resident);
  std::fclose(file);
  return fields == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

void LeaveAtOnce(const std::string& why) {
  std::fprintf(stderr, "leaving: %s\n", why.c_str());
  _exit(exit_code::kUnavailable);
}

// The stream to the hub. gRPC runs reactions on its own threads, never inside StartWrite.
class WorkerAgent::Stream final : public grpc::ClientBidiReactor<proto::WorkerMessage, proto::LauncherMessage> {
 public:
  // `hear` is called on gRPC's threads with all messages but the one to leave.
  Stream(const Options& options, std::function<void(const proto::LauncherMessage&)> hear)
      : caller_(options.caller),
        leave_(options.leave),
        hear_(std::move(hear)),
        stub_(proto::WorkerHub::NewStub(options.hub)) {
    stub_->async()->Attach(&context_, this);
    AddHold();  // writes are started outside of reactions
    StartRead(&incoming_);
    StartCall();
    proto::WorkerMessage message;
    *message.mutable_hello() = options.hello;
    Send(std::move(message));
  }

  ~Stream() override {
    absl::MutexLock lock(&mutex_);
    quiet_ = true;
    context_.TryCancel();
    ReleaseHold();
    mutex_.Await(absl::Condition(&done_));
  }

  void Send(proto::WorkerMessage message) {
    absl::MutexLock lock(&mutex_);
    if (closing_) return;
    *message.mutable_caller() = caller_;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }

  // Waits until everything sent so far has arrived and the hub has ended the stream; `leave_` is not called for that.
  void Finish(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    quiet_ = true;
    if (!std::exchange(closing_, true) && outgoing_.empty()) StartWritesDone();
    mutex_.AwaitWithTimeout(absl::Condition(&done_), timeout);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
      return ReleaseHold();  // OnDone follows, with the status
    }
    if (incoming_.has_generation_over()) {
      Leave(absl::StrCat("the generation is over: ", incoming_.generation_over().cause()));
    } else {
      hear_(incoming_);
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();  // the read side reports it
    if (!outgoing_.empty()) {
      StartWrite(&outgoing_.front());
    } else if (closing_ && ok && held_) {
      StartWritesDone();
    }
  }

  void OnDone(const grpc::Status& status) override {
    Leave(absl::StrCat("the launcher is gone: ", status.ok() ? "it closed the stream" : status.error_message()));
    absl::MutexLock lock(&mutex_);
    done_ = true;  // must be the last access: the destructor may proceed now
  }

 private:
  void Leave(const std::string& why) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(quiet_, true)) return;
    }
    leave_(why);
  }

  void ReleaseHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(held_, false)) RemoveHold();
  }

  const proto::Caller caller_;
  const std::function<void(const std::string&)> leave_;
  const std::function<void(const proto::LauncherMessage&)> hear_;
  const std::unique_ptr<proto::WorkerHub::Stub> stub_;
  grpc::ClientContext context_;
  proto::LauncherMessage incoming_;

  absl::Mutex mutex_;
  std::deque<proto::WorkerMessage> outgoing_ ABSL_GUARDED_BY(mutex_);  // the first one is being written
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;                       // nothing more is sent
  bool quiet_ ABSL_GUARDED_BY(mutex_) = false;                         // leave_ has been called, or must not be
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

WorkerAgent::WorkerAgent(Options options)
    : heartbeat_(options.heartbeat), write_stacks_(options.write_stacks), page_(std::move(options.page)) {
  if (options.hub != nullptr)
    stream_ = std::make_unique<Stream>(options, [this](const proto::LauncherMessage& message) { Hear(message); });
  if (stream_ != nullptr || page_.has_value()) thread_ = std::thread([this] { RunHeartbeat(); });
}

WorkerAgent::~WorkerAgent() {
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
  stream_.reset();  // nothing is heard any more
  if (stacks_thread_.joinable()) stacks_thread_.join();
}

void WorkerAgent::Hear(const proto::LauncherMessage& message) {
  if (message.has_drain()) drain_.store(true, std::memory_order_relaxed);
  if (message.has_save()) save_.store(true, std::memory_order_relaxed);
  if (message.has_profile()) profile_.store(true, std::memory_order_relaxed);
  if (message.has_stacks()) WriteStacks(message.stacks().folder());
}

void WorkerAgent::WriteStacks(const std::string& folder) {
  if (write_stacks_ == nullptr || writes_stacks_.exchange(true)) return;
  if (stacks_thread_.joinable()) stacks_thread_.join();  // it has done its work
  stacks_thread_ = std::thread([this, folder] {
    write_stacks_(folder);
    writes_stacks_.store(false);
  });
}

void WorkerAgent::RecordStep(int64_t batch, int64_t samples, double loss, double data_wait) {
  loss_.store(loss, std::memory_order_relaxed);
  samples_.store(samples, std::memory_order_relaxed);
  batch_.store(batch, std::memory_order_relaxed);
  if (page_.has_value()) page_->RecordStep(batch, samples, loss, data_wait);
}

void WorkerAgent::SetPhase(proto::Phase phase) {
  phase_.store(phase, std::memory_order_relaxed);
  if (page_.has_value()) page_->SetPhase(phase);
  Beat();
}

void WorkerAgent::ReportStarted(absl::string_view checkpoint, int64_t batch, int64_t samples) {
  samples_.store(samples, std::memory_order_relaxed);
  batch_.store(batch, std::memory_order_relaxed);
  if (page_.has_value()) page_->SetStart(batch, samples);
  if (stream_ == nullptr) return;
  proto::WorkerMessage message;
  message.mutable_started()->set_checkpoint(std::string(checkpoint));
  message.mutable_started()->set_batch(batch);
  message.mutable_started()->set_samples(samples);
  stream_->Send(std::move(message));
}

void WorkerAgent::ReportCheckpointSaved(absl::string_view path, int64_t batch) {
  if (stream_ == nullptr) return;
  proto::WorkerMessage message;
  message.mutable_checkpoint_saved()->set_path(std::string(path));
  message.mutable_checkpoint_saved()->set_batch(batch);
  stream_->Send(std::move(message));
}

void WorkerAgent::Finish(proto::ExitReport report) {
  if (stream_ == nullptr) return;
  proto::WorkerMessage message;
  *message.mutable_exit_report() = std::move(report);
  stream_->Send(std::move(message));
  stream_->Finish(absl::Seconds(1));
}

void WorkerAgent::Beat() {
  if (stream_ == nullptr) return;
  proto::WorkerMessage message;
  proto::Progress& progress = *message.mutable_progress();
  progress.set_phase(static_cast<proto::Phase>(phase_.load(std::memory_order_relaxed)));
  progress.set_batch(batch_.load(std::memory_order_relaxed));
  progress.set_samples(samples_.load(std::memory_order_relaxed));
  progress.set_loss(loss_.load(std::memory_order_relaxed));
  progress.set_resident_bytes(ResidentBytes());
  stream_->Send(std::move(message));
}

void WorkerAgent::RunHeartbeat() {
  do {
    if (page_.has_value()) page_->Beat();
    Beat();
  } while (!stop_.WaitForNotificationWithTimeout(heartbeat_));
}

}  // namespace composer

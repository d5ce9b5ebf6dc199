// Replaces composer_worker in the launcher's tests: attaches to the hub, counts steps on its progress page, and obeys.
//   composer_worker --run_folder=F job.yaml steps=20 step_ms=5 [save=N] [stubborn=1]
//       [die_rank=R die_step=S die_how=9|<exit code>|hang|starve|error|full] [die_delay_ms=N]
//       [start=birth|attached|group|load] [linger_rank=R linger_ms=N]
// die_how=error is an error that is reported, and full a full disk that is reported. With starve it lives, but another
// thread takes its processor for starve_ms. With start, die_rank never gets past that point. It resumes from
// F/fake-checkpoint. linger_rank finishes that much later than the others. die_* applies to generations up to
// die_generations (default 1).
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/grpcpp.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "base/env.h"
#include "contract/progress_page.h"
#include "proto/worker.grpc.pb.h"

namespace composer {
namespace {

struct Settings {
  std::map<std::string, std::string> values;
  int Number(const std::string& name, int fallback) const {
    const auto it = values.find(name);
    return it == values.end() ? fallback : std::stoi(it->second);
  }
};

class FakeWorker {
 public:
  FakeWorker(Settings settings, Environment environment)
      : settings_(std::move(settings)),
        environment_(std::move(environment)),
        rank_(std::stoi(environment_.GetOr("RANK", "0"))),
        page_(*ProgressPage::Open(environment_.GetOr("COMPOSER_PROGRESS_PAGE", ""))),
        stub_(proto::WorkerHub::NewStub(
            grpc::CreateChannel(environment_.GetOr("COMPOSER_HUB", ""), grpc::InsecureChannelCredentials()))),
        stream_(stub_->Attach(&context_)) {}

  int Run() {
    if (Is("start", "attached")) return Sleep();  // has its page and stream, but sends nothing
    proto::WorkerMessage hello;
    hello.mutable_hello()->set_rank(rank_);
    Send(hello);
    std::thread([this] { Listen(); }).detach();
    std::fprintf(stderr, "rank %d starts\n", rank_);
    page_.Beat();
    if (Is("start", "group")) return Sleep(proto::PHASE_CONNECTING);
    if (Is("start", "load")) return Sleep(proto::PHASE_LOADING);
    if (Is("start", "refused")) return Leave(64, "cannot run so");
    Resume();
    while (step_ < settings_.Number("steps", 20)) {
      if (over_) return Leave(69, "a peer failed");
      if (Stopped()) return Checkpoint(), Leave(75, "preempted");
      usleep(1000 * settings_.Number("step_ms", 5));
      MaybeDie();
      ++step_;
      page_.RecordStep(step_, 32 * step_, 1.0 / step_, 0);
      WaitForPeers();
      if (step_ % settings_.Number("save", 10) == 0 || saving_.exchange(false)) Checkpoint();
    }
    Checkpoint();
    if (rank_ == settings_.Number("linger_rank", -1)) usleep(1000 * settings_.Number("linger_ms", 0));
    return Leave(0, "");
  }

 private:
  std::string CheckpointPath() const { return settings_.values.at("--run_folder") + "/fake-checkpoint"; }

  void Resume() {
    std::ifstream(CheckpointPath()) >> step_;
    page_.SetStart(step_, 32 * step_);
    proto::WorkerMessage message;
    message.mutable_started()->set_batch(step_);
    message.mutable_started()->set_samples(32 * step_);
    message.mutable_started()->set_checkpoint(step_ > 0 ? CheckpointPath() : "");
    Send(message);
    page_.SetPhase(proto::PHASE_TRAINING);
    WaitForPeers();
  }

  // Returns whether the setting `start`, which says how the rank `die_rank` starts in generations up to
  // die_generations, has this value.
  bool Is(const std::string& name, const std::string& value) const {
    const auto it = settings_.values.find(name);
    return it != settings_.values.end() && it->second == value && rank_ == settings_.Number("die_rank", -1) &&
           std::stoi(environment_.GetOr("COMPOSER_GENERATION", "1")) <= settings_.Number("die_generations", 1);
  }

  // Idles for ever, with heartbeats once it has reported its phase.
  int Sleep(int phase = -1) {
    if (phase >= 0) page_.SetPhase(phase);
    while (true) {
      if (phase >= 0) page_.Beat();
      usleep(100'000);
    }
  }

  bool Stopped() const { return over_ || (draining_ && settings_.Number("stubborn", 0) == 0); }

  // Waits until all ranks have done as many steps as this one, as a collective would.
  void WaitForPeers() {
    const std::string page = environment_.GetOr("COMPOSER_PROGRESS_PAGE", "");
    const std::string stem = page.substr(0, page.rfind('-') + 1);
    const int ranks = std::stoi(environment_.GetOr("LOCAL_WORLD_SIZE", "1"));
    for (int rank = 0; rank < ranks; ++rank) {
      absl::StatusOr<ProgressPage> peer = ProgressPage::Open(stem + std::to_string(rank));
      while (!Stopped() && (!peer.ok() || peer->Read().phase != proto::PHASE_TRAINING || peer->Read().batch < step_)) {
        if (!peer.ok()) peer = ProgressPage::Open(stem + std::to_string(rank));
        page_.Beat();
        usleep(1000);
      }
    }
  }

  void Checkpoint() {
    if (rank_ != 0) return;
    std::ofstream(CheckpointPath() + ".tmp") << step_;
    rename((CheckpointPath() + ".tmp").c_str(), CheckpointPath().c_str());
    proto::WorkerMessage message;
    message.mutable_checkpoint_saved()->set_path(CheckpointPath());
    message.mutable_checkpoint_saved()->set_batch(step_);
    Send(message);
  }

  void MaybeDie() {
    if (rank_ != settings_.Number("die_rank", -1) || step_ != settings_.Number("die_step", 0)) return;
    if (std::stoi(environment_.GetOr("COMPOSER_GENERATION", "1")) > settings_.Number("die_generations", 1)) return;
    const std::string how = settings_.values.at("die_how");
    usleep(1000 * settings_.Number("die_delay_ms", 0));
    std::fprintf(stderr, "rank %d is about to go: %s\n", rank_, how.c_str());
    if (how == "error") _exit(Leave(70, "layers.1: shapes do not fit"));
    if (how == "full")
      _exit(Leave(70, "cannot write " + settings_.values.at("--run_folder") + "/x: No space left on device"));
    if (how == "starve") return Starve(std::chrono::milliseconds(settings_.Number("starve_ms", 25'000)));
    if (how == "9") kill(getpid(), SIGKILL);
    if (how == "hang") {
      kill(getpid(), SIGSTOP);
      pause();
    }
    _exit(std::stoi(how));
  }

  // Waits for a thread that computes with the least priority while another one takes the same processor.
  static void Starve(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    const auto compute = [&](int policy) {
      const sched_param none = {};
      sched_setaffinity(0, sizeof(one), &one);
      sched_setscheduler(0, policy, &none);  // of this thread only
      setpriority(PRIO_PROCESS, gettid(), 19);
      while (std::chrono::steady_clock::now() < end) continue;
    };
    std::thread greedy(compute, SCHED_OTHER);
    std::thread(compute, SCHED_IDLE).join();
    greedy.join();
  }

  int Leave(int code, const std::string& message) {
    proto::WorkerMessage report;
    report.mutable_exit_report()->set_rank(rank_);
    report.mutable_exit_report()->set_message(message);
    report.mutable_exit_report()->set_code(code == 0 ? 0 : 13);
    report.mutable_exit_report()->set_batch(step_);
    if (code == 0) (*report.mutable_exit_report()->mutable_metrics())["metrics/eval/Accuracy"] = 0.5;
    Send(report);
    stream_->WritesDone();
    for (int i = 0; i < 200 && listening_; ++i) usleep(10'000);  // until the launcher has received everything
    return code;
  }

  void Listen() {
    proto::LauncherMessage message;
    while (stream_->Read(&message)) {
      if (message.has_drain()) draining_ = true;
      if (message.has_save()) saving_ = true;
      if (message.has_profile()) std::fprintf(stderr, "rank %d is to profile\n", rank_);
      if (message.has_stacks())
        std::fprintf(stderr, "rank %d is to write %s\n", rank_, message.stacks().folder().c_str());
      if (message.has_generation_over()) over_ = true;
    }
    listening_ = false;
  }

  void Send(proto::WorkerMessage& message) {
    message.mutable_caller()->set_job(environment_.GetOr("COMPOSER_JOB", ""));
    message.mutable_caller()->set_generation(std::stoull(environment_.GetOr("COMPOSER_GENERATION", "0")));
    stream_->Write(message);
  }

  const Settings settings_;
  const Environment environment_;
  const int rank_;
  ProgressPage page_;
  grpc::ClientContext context_;
  std::unique_ptr<proto::WorkerHub::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::WorkerMessage, proto::LauncherMessage>> stream_;
  std::atomic<bool> draining_ = false;
  std::atomic<bool> saving_ = false;
  std::atomic<bool> over_ = false;
  std::atomic<bool> listening_ = true;
  int step_ = 0;
};

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  composer::Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (absl::StartsWith(word, "variables.")) word.erase(0, 10);
    if (const size_t equals = word.find('='); equals != std::string::npos)
      settings.values[word.substr(0, equals)] = word.substr(equals + 1);
  }
  const composer::Environment environment = composer::Environment::FromProcess();
  const std::map<std::string, std::string>& values = settings.values;
  const bool chosen = values.contains("die_rank") && values.at("die_rank") == environment.GetOr("RANK", "");
  const bool birth = values.contains("start") && values.at("start") == "birth";
  if (birth && chosen && environment.GetOr("COMPOSER_GENERATION", "") == "1") pause();
  _exit(composer::FakeWorker(std::move(settings), environment).Run());
}

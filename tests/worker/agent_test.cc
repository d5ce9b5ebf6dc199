// SPDX-License-Identifier: Apache-2.0
#include "worker/agent.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/worker.grpc.pb.h"
#include "rendezvous/transport/grpc_settings.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
constexpr absl::Duration kLong = absl::Seconds(20);

// A launcher's hub for one worker: records what it received and sends what the test wants.
class FakeHub final : public proto::WorkerHub::Service {
 public:
  FakeHub() : address_(absl::StrCat("unix:", folder_.path(), "/hub")) {
    grpc::ServerBuilder builder;
    ApplyServerSettings(builder, Link::kLocal);
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeHub() override { Stop(); }
  void Stop() { server_->Shutdown(DeadlineAfter(absl::ZeroDuration())); }

  grpc::Status Attach(grpc::ServerContext*,
                      grpc::ServerReaderWriter<proto::LauncherMessage, proto::WorkerMessage>* stream) override {
    proto::WorkerMessage message;
    while (stream->Read(&message)) {
      absl::MutexLock lock(&mutex_);
      heard_.push_back(message);
      if (!refusal_.ok()) return refusal_;
      stream_ = stream;
    }
    absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    return grpc::Status::OK;
  }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), ChannelSettings(Link::kLocal));
  }
  void RefuseWith(const grpc::Status& status) {
    absl::MutexLock lock(&mutex_);
    refusal_ = status;
  }
  // Waits for the first message that matches.
  template <typename Predicate>
  proto::WorkerMessage WaitFor(const Predicate& fits) {
    absl::MutexLock lock(&mutex_);
    const auto find = [&] {
      mutex_.AssertHeld();
      return std::find_if(heard_.begin(), heard_.end(), fits);
    };
    const auto found = [&] {
      mutex_.AssertHeld();
      return find() != heard_.end();
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&found), kLong));
    return found() ? *find() : proto::WorkerMessage();
  }
  void Say(const proto::LauncherMessage& message) {
    absl::MutexLock lock(&mutex_);
    const auto attached = [this] {
      mutex_.AssertHeld();
      return stream_ != nullptr;
    };
    ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&attached), kLong));
    stream_->Write(message);
  }

 private:
  TempDir folder_;
  const std::string address_;
  absl::Mutex mutex_;
  std::vector<proto::WorkerMessage> heard_ ABSL_GUARDED_BY(mutex_);
  grpc::ServerReaderWriter<proto::LauncherMessage, proto::WorkerMessage>* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  grpc::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

// Records the reason that `leave` is given, instead of ending the test.
struct Departure {
  absl::Notification called;
  std::string why;
  std::function<void(const std::string&)> Handler() {
    return [this](const std::string& text) {
      why = text;
      called.Notify();  // CHECKs that it happens once
    };
  }
};

WorkerAgent::Options OptionsFor(const FakeHub& hub, Departure& departure) {
  WorkerAgent::Options options;
  options.hub = hub.NewChannel();
  options.caller.set_job("job");
  options.caller.set_generation(4);
  options.caller.set_incarnation("w");
  options.hello.set_rank(2);
  options.hello.set_pid(77);
  options.heartbeat = absl::Milliseconds(5);
  options.leave = departure.Handler();
  return options;
}

TEST(WorkerAgent, HelloComesFirstAndCarriesTheCaller) {
  FakeHub hub;
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  const proto::WorkerMessage first = hub.WaitFor([](const auto&) { return true; });
  EXPECT_EQ(first.hello().rank(), 2);
  EXPECT_EQ(first.hello().pid(), 77);
  EXPECT_EQ(first.caller().job(), "job");
  EXPECT_EQ(first.caller().generation(), 4u);
}

TEST(WorkerAgent, HeartbeatsCarryTheLastStep) {
  FakeHub hub;
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  const auto before = hub.WaitFor([](const auto& m) { return m.has_progress(); });
  EXPECT_TRUE(std::isnan(before.progress().loss()));
  agent.RecordStep(7, 448, 0.25, 0);
  const auto progress = hub.WaitFor([](const auto& m) { return m.progress().batch() == 7; }).progress();
  EXPECT_EQ(progress.samples(), 448);
  EXPECT_EQ(progress.loss(), 0.25);
  EXPECT_GT(progress.resident_bytes(), 1 << 20);
}

TEST(WorkerAgent, PhaseIsSentAtOnce) {
  FakeHub hub;
  Departure departure;
  WorkerAgent::Options options = OptionsFor(hub, departure);
  options.heartbeat = absl::Hours(1);
  WorkerAgent agent(std::move(options));
  agent.SetPhase(proto::PHASE_SAVING);
  hub.WaitFor([](const auto& m) { return m.progress().phase() == proto::PHASE_SAVING; });
}

TEST(WorkerAgent, ReportsArriveInOrderBeforeFinishReturns) {
  FakeHub hub;
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  agent.ReportStarted("runs/a/checkpoints/ba10", 10, 640);
  agent.ReportCheckpointSaved("runs/a/checkpoints/ba20", 20);
  proto::ExitReport report;
  report.set_rank(2);
  report.set_message("done");
  const absl::Time start = absl::Now();
  agent.Finish(report);
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(900)) << "the hub has read it all: no need to wait for the limit";
  EXPECT_EQ(hub.WaitFor([](const auto& m) { return m.has_started(); }).started().samples(), 640);
  EXPECT_EQ(hub.WaitFor([](const auto& m) { return m.has_checkpoint_saved(); }).checkpoint_saved().batch(), 20);
  EXPECT_EQ(hub.WaitFor([](const auto& m) { return m.has_exit_report(); }).exit_report().message(), "done");
  EXPECT_FALSE(departure.called.HasBeenNotified());
}

TEST(WorkerAgent, DrainSetsTheFlag) {
  FakeHub hub;
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  EXPECT_FALSE(agent.drain_requested());
  proto::LauncherMessage message;
  message.mutable_drain()->set_reason("SIGTERM");
  hub.Say(message);
  EXPECT_TRUE(WaitUntil([&] { return agent.drain_requested(); }, kLong));
  EXPECT_FALSE(departure.called.HasBeenNotified());
}

TEST(WorkerAgent, ARequestForAProfileIsTakenOnce) {
  FakeHub hub;
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  EXPECT_FALSE(agent.TakeProfileRequest());
  proto::LauncherMessage message;
  message.mutable_profile();
  hub.Say(message);
  EXPECT_TRUE(WaitUntil([&] { return agent.TakeProfileRequest(); }, kLong));
  EXPECT_FALSE(agent.TakeProfileRequest());
  EXPECT_FALSE(agent.drain_requested());
}

TEST(WorkerAgent, StacksAreWrittenOnAThreadOfTheirOwnOneAtATime) {
  FakeHub hub;
  Departure departure;
  absl::Notification go_on;
  std::atomic<int> calls = 0;
  WorkerAgent::Options options = OptionsFor(hub, departure);
  options.write_stacks = [&](const std::string& folder) {
    EXPECT_EQ(folder, "run/logs");
    if (++calls == 1) go_on.WaitForNotification();
  };
  WorkerAgent agent(std::move(options));
  const auto wait_for = [](const std::function<bool()>& there) { EXPECT_TRUE(WaitUntil(there, kLong)); };
  proto::LauncherMessage stacks, drain;
  stacks.mutable_stacks()->set_folder("run/logs");
  drain.mutable_drain();
  hub.Say(stacks);
  wait_for([&] { return calls == 1; });
  hub.Say(stacks);  // dropped: the first one is not done
  hub.Say(drain);
  wait_for([&] { return agent.drain_requested(); });  // which is heard meanwhile
  EXPECT_EQ(calls, 1);
  go_on.Notify();
  wait_for([&] {
    hub.Say(stacks);
    return calls >= 2;
  });
}

TEST(WorkerAgent, EndOfTheGenerationMakesItLeave) {
  FakeHub hub;
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  proto::LauncherMessage message;
  message.mutable_generation_over()->set_cause("rank 0 was killed by signal 9");
  hub.Say(message);
  ASSERT_TRUE(departure.called.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(departure.why, "the generation is over: rank 0 was killed by signal 9");
}

TEST(WorkerAgent, LossOfTheLauncherMakesItLeave) {
  FakeHub hub;
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  hub.WaitFor([](const auto&) { return true; });
  hub.Stop();
  ASSERT_TRUE(departure.called.WaitForNotificationWithTimeout(kLong));
  EXPECT_THAT(departure.why, HasSubstr("the launcher is gone: "));
}

TEST(WorkerAgent, RefusalMakesItLeaveWithTheReason) {
  FakeHub hub;
  hub.RefuseWith(grpc::Status(grpc::StatusCode::ABORTED, "generation 4 is not the current one"));
  Departure departure;
  WorkerAgent agent(OptionsFor(hub, departure));
  ASSERT_TRUE(departure.called.WaitForNotificationWithTimeout(kLong));
  EXPECT_EQ(departure.why, "the launcher is gone: generation 4 is not the current one");
}

TEST(WorkerAgent, WritesTheProgressPage) {
  TempDir folder;
  const std::string path = absl::StrCat(folder.path(), "/page");
  auto reader = ProgressPage::Create(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  WorkerAgent::Options options;  // no hub, only the page
  options.page = *ProgressPage::Open(path);
  options.heartbeat = absl::Milliseconds(1);
  WorkerAgent agent(std::move(options));
  agent.ReportStarted("", 10, 640);
  EXPECT_EQ(reader->Read().batch, 10);
  agent.SetPhase(proto::PHASE_TRAINING);
  agent.RecordStep(11, 704, 2.5, 0.125);
  const ProgressSnapshot page = reader->Read();
  EXPECT_EQ(page.batch, 11);
  EXPECT_EQ(page.samples, 704);
  EXPECT_EQ(page.loss, 2.5);
  EXPECT_EQ(page.data_wait, 0.125);
  EXPECT_EQ(page.phase, proto::PHASE_TRAINING);
  WaitUntil([&] { return reader->Read().heartbeat >= 3; }, kLong);
  EXPECT_GE(reader->Read().heartbeat, 3);
}

TEST(WorkerAgent, WithoutLauncherAllIsQuiet) {
  WorkerAgent agent({});
  agent.SetPhase(proto::PHASE_TRAINING);
  agent.RecordStep(1, 2, 3, 0);
  agent.ReportStarted("", 0, 0);
  agent.Finish({});
  EXPECT_FALSE(agent.drain_requested());
}

TEST(WorkerAgentDeathTest, LeavingIsExitCode69) {
  EXPECT_EXIT(LeaveAtOnce("the launcher is gone"), ::testing::ExitedWithCode(69), "leaving: the launcher is gone");
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/worker_hub.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"
#include "proto/worker.grpc.pb.h"
#include "rendezvous/store/key_value_upstream.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

// The worker's side of the stream.
struct FakeWorker {
  grpc::ClientContext context;
  std::unique_ptr<proto::WorkerHub::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<proto::WorkerMessage, proto::LauncherMessage>> stream;

  explicit FakeWorker(const WorkerHub& hub)
      : stub(proto::WorkerHub::NewStub(grpc::CreateChannel(hub.address(), grpc::InsecureChannelCredentials()))) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    stream = stub->Attach(&context);
  }
  void Hello(int rank, const std::string& job, uint64_t generation) {
    proto::WorkerMessage message;
    message.mutable_caller()->set_job(job);
    message.mutable_caller()->set_generation(generation);
    message.mutable_hello()->set_rank(rank);
    stream->Write(message);
  }
  proto::LauncherMessage Next() {
    proto::LauncherMessage message;
    EXPECT_TRUE(stream->Read(&message));
    return message;
  }
};

class WorkerHubTest : public testing::Test {
 protected:
  void SetUp() override {
    auto hub =
        WorkerHub::Start({.socket_path = dir_.Path("hub"),
                          .job = "job",
                          .upstream = std::make_shared<KeyValueUpstream>(
                              "launcher", grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials())),
                          .handler = [this](const WorkerHub::Report& report) {
                            absl::MutexLock lock(&mutex_);
                            seen_.push_back(absl::StrCat(report.rank, report.message.has_hello()      ? " hello"
                                                                      : report.message.has_progress() ? " progress"
                                                                                                      : " other"));
                          }});
    ASSERT_TRUE(hub.ok()) << hub.status();
    hub_ = std::move(*hub);
    hub_->BeginGeneration(3);
  }
  bool Saw(const std::string& what) {
    return WaitUntil(
        [&] {
          absl::MutexLock lock(&mutex_);
          return std::find(seen_.begin(), seen_.end(), what) != seen_.end();
        },
        absl::Seconds(5));
  }

  TempDir dir_;
  absl::Mutex mutex_;
  std::vector<std::string> seen_;
  std::unique_ptr<WorkerHub> hub_;
};

TEST_F(WorkerHubTest, HearsWorkersAndTellsThemToStop) {
  FakeWorker worker(*hub_);
  worker.Hello(1, "job", 3);
  ASSERT_TRUE(Saw("1 hello"));
  proto::WorkerMessage progress;
  progress.mutable_progress()->set_batch(5);
  worker.stream->Write(progress);
  EXPECT_TRUE(Saw("1 progress"));
  hub_->Drain("SIGTERM");
  EXPECT_EQ(worker.Next().drain().reason(), "SIGTERM");
  hub_->EndGeneration("rank 0 exited with 3");
  EXPECT_EQ(worker.Next().generation_over().cause(), "rank 0 exited with 3");
  worker.stream->WritesDone();
  EXPECT_TRUE(worker.stream->Finish().ok());
}

TEST_F(WorkerHubTest, ALateWorkerHearsOfTheStop) {
  hub_->Drain("SIGTERM");
  FakeWorker worker(*hub_);
  worker.Hello(0, "job", 3);
  EXPECT_EQ(worker.Next().drain().reason(), "SIGTERM");
  worker.stream->WritesDone();
  EXPECT_TRUE(worker.stream->Finish().ok());
}

TEST_F(WorkerHubTest, RefusesStrangers) {
  for (const auto& [job, generation] : std::vector<std::pair<std::string, uint64_t>>{{"other", 3}, {"job", 2}}) {
    FakeWorker worker(*hub_);
    worker.Hello(0, job, generation);
    const grpc::Status status = worker.stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED) << job;
    EXPECT_THAT(status.error_message(), HasSubstr("runs job job generation 3"));
  }
  FakeWorker silent(*hub_);
  silent.stream->Write(proto::WorkerMessage());
  EXPECT_EQ(silent.stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerHubTest, EndsWithWorkersAttached) {
  FakeWorker worker(*hub_);
  worker.Hello(0, "job", 3);
  ASSERT_TRUE(Saw("0 hello"));
  hub_.reset();
  EXPECT_EQ(worker.stream->Finish().ok(), false);
}

TEST(WorkerHubPathTest, TooLongASocketPath) {
  const auto hub = WorkerHub::Start({.socket_path = "/" + std::string(200, 'x'), .upstream = nullptr});
  EXPECT_EQ(hub.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(hub.status().message()), HasSubstr("TMPDIR"));
}

}  // namespace
}  // namespace composer

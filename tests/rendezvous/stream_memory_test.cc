// A stream that lives as long as its job must not keep its messages.
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "proto/worker.grpc.pb.h"
#include "rendezvous/transport/grpc_settings.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

// Answers nothing, as a launcher while all is well.
class SilentHub final : public proto::WorkerHub::Service {
 public:
  grpc::Status Attach(grpc::ServerContext*,
                      grpc::ServerReaderWriter<proto::LauncherMessage, proto::WorkerMessage>* stream) override {
    proto::WorkerMessage message;
    while (stream->Read(&message)) {
      const absl::MutexLock lock(&mutex_);
      ++heard_;
    }
    return grpc::Status::OK;
  }
  bool HasHeard(int messages) {
    const absl::MutexLock lock(&mutex_);
    const auto heard = [&] {
      mutex_.AssertHeld();
      return heard_ >= messages;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&heard), absl::Seconds(60));
  }

 private:
  absl::Mutex mutex_;
  int heard_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Bytes that malloc has given out, of client and server.
size_t BytesInUse() { return mallinfo2().uordblks; }

TEST(StreamMemory, MessagesToALauncherLeaveNothingBehind) {
  constexpr int kFirst = 500, kMessages = 3000;
  constexpr size_t kMostOfAMessage = 50;  // gRPC's retries, were they on: 600 and more
  if (BytesInUse() == 0) GTEST_SKIP() << "this malloc does not count";
  TempDir folder;
  const std::string address = absl::StrCat("unix:", folder.path(), "/hub");
  SilentHub hub;
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder, Link::kLocal);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&hub);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = proto::WorkerHub::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), ChannelSettings(Link::kLocal)));

  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  proto::WorkerMessage message;
  message.mutable_caller()->set_job("job");
  message.mutable_progress()->set_batch(7);
  const auto send = [&](int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(stream->Write(message));
  };
  send(kFirst);
  ASSERT_TRUE(hub.HasHeard(kFirst));
  const size_t before = BytesInUse();
  send(kMessages);
  ASSERT_TRUE(hub.HasHeard(kFirst + kMessages));
  const size_t after = BytesInUse();
  EXPECT_LE(after, before + kMessages * kMostOfAMessage);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace composer

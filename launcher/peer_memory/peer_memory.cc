// SPDX-License-Identifier: Apache-2.0
#include "launcher/peer_memory/peer_memory.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "launcher/peer_memory/memory_folder.h"
#include "proto/peer_memory.grpc.pb.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/listener.h"
#include "rendezvous/transport/open_channel.h"

namespace composer {
namespace {

constexpr int kMaxPeerConnections = 4096;  // one from each other node that sends here
constexpr int kMaxMessage = static_cast<int>(MemoryFolder::kChunkBytes) + (64 << 10);
constexpr absl::Duration kConnectLimit = absl::Seconds(5);
constexpr absl::Duration kShortCall = absl::Seconds(10);  // for a list or a removal
constexpr absl::Duration kLongCall = absl::Minutes(10);   // for the transfer of an object

}  // namespace

class PeerMemory::Server final : public proto::PeerMemory::Service {
 public:
  Server(const std::string& folder, std::string job) : folder_(folder), job_(std::move(job)) {}

  grpc::Status Put(grpc::ServerContext*, grpc::ServerReader<proto::PeerChunk>* reader, proto::PeerDone*) override {
    return ToGrpc(Take(*reader));
  }
  grpc::Status Get(grpc::ServerContext*, const proto::PeerRequest* request,
                   grpc::ServerWriter<proto::PeerChunk>* writer) override {
    return ToGrpc(Give(*request, *writer));
  }
  grpc::Status List(grpc::ServerContext*, const proto::PeerRequest* request, proto::PeerObjects* reply) override {
    return ToGrpc(ListInto(*request, *reply));
  }
  grpc::Status Remove(grpc::ServerContext*, const proto::PeerRequest* request, proto::PeerDone*) override {
    const absl::Status mine = CheckJob(*request);
    return ToGrpc(mine.ok() ? folder_.Remove(request->key()) : mine);
  }

  MemoryFolder& folder() { return folder_; }
  const std::string& job() const { return job_; }

 private:
  absl::Status CheckJob(const proto::PeerRequest& request) const {
    if (request.job() == job_) return absl::OkStatus();
    return absl::AbortedError(absl::StrCat("this launcher runs job ", job_, ", not ", request.job()));
  }
  absl::Status Take(grpc::ServerReader<proto::PeerChunk>& reader) {
    proto::PeerChunk chunk;
    if (!reader.Read(&chunk)) return absl::InvalidArgumentError("an empty stream");
    RETURN_IF_ERROR(CheckJob(chunk.to()));
    ASSIGN_OR_RETURN(MemoryFolder::Incoming incoming, folder_.Receive(chunk.to().key()));
    // An interrupted stream ends just as a complete one does, so the sender marks the end with an empty chunk.
    bool complete = false;
    do {
      complete = chunk.data().empty() && !chunk.has_to();
      RETURN_IF_ERROR(incoming.Append(chunk.data()));
    } while (!complete && reader.Read(&chunk));
    return complete ? incoming.Commit() : absl::DataLossError("the stream was cut off");
  }
  absl::Status Give(const proto::PeerRequest& request, grpc::ServerWriter<proto::PeerChunk>& writer) {
    RETURN_IF_ERROR(CheckJob(request));
    proto::PeerChunk chunk;
    return folder_.Send(request.key(), [&](absl::string_view data) {
      chunk.set_data(data.data(), data.size());
      return writer.Write(chunk);
    });
  }
  absl::Status ListInto(const proto::PeerRequest& request, proto::PeerObjects& reply) {
    RETURN_IF_ERROR(CheckJob(request));
    ASSIGN_OR_RETURN(const auto objects, folder_.List(request.key()));
    for (const auto& [key, bytes] : objects) {
      proto::PeerObject& object = *reply.add_objects();
      object.set_key(key);
      object.set_bytes(bytes);
    }
    return absl::OkStatus();
  }

  MemoryFolder folder_;
  const std::string job_;
};

class PeerMemory::Relay final : public proto::PeerRelay::Service {
 public:
  Relay(Server& own, Credentials credentials) : own_(own), credentials_(std::move(credentials)) {}

  grpc::Status Push(grpc::ServerContext*, const proto::RelayRequest* request, proto::PeerDone* reply) override {
    return ToGrpc(Push(*request, *reply));
  }
  grpc::Status Pull(grpc::ServerContext*, const proto::RelayRequest* request, proto::PeerDone*) override {
    return ToGrpc(Pull(*request));
  }
  grpc::Status List(grpc::ServerContext*, const proto::RelayRequest* request, proto::PeerObjects* reply) override {
    return ToGrpc(
        Ask(*request, [&](auto& stub, auto& context, const auto& asked) { return stub.List(&context, asked, reply); }));
  }
  grpc::Status Remove(grpc::ServerContext*, const proto::RelayRequest* request, proto::PeerDone* reply) override {
    return ToGrpc(Ask(
        *request, [&](auto& stub, auto& context, const auto& asked) { return stub.Remove(&context, asked, reply); }));
  }

 private:
  using Stub = proto::PeerMemory::Stub;

  absl::StatusOr<std::shared_ptr<Stub>> StubFor(const std::string& peer) {
    {
      absl::MutexLock lock(&mutex_);
      const auto known = stubs_.find(peer);
      if (known != stubs_.end()) return known->second;
    }
    ASSIGN_OR_RETURN(const auto channel, OpenChannel(peer, credentials_, kConnectLimit));
    absl::MutexLock lock(&mutex_);
    return stubs_[peer] = proto::PeerMemory::NewStub(channel);
  }

  proto::PeerRequest RequestFor(const std::string& key) const {
    proto::PeerRequest request;
    request.set_job(own_.job());
    request.set_key(key);
    return request;
  }

  template <typename Call>
  absl::Status Ask(const proto::RelayRequest& request, Call call) {
    ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, StubFor(request.peer()));
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kShortCall));
    return FromGrpc(call(*stub, context, RequestFor(request.key())));
  }

  absl::Status Push(const proto::RelayRequest& request, proto::PeerDone& reply) {
    ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, StubFor(request.peer()));
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kLongCall));
    const auto writer = stub->Put(&context, &reply);
    proto::PeerChunk chunk;
    *chunk.mutable_to() = RequestFor(request.key());
    bool taken = writer->Write(chunk);
    chunk.clear_to();
    const absl::Status sent = own_.folder().Send(request.key(), [&](absl::string_view data) {
      chunk.set_data(data.data(), data.size());
      return taken = taken && writer->Write(chunk);
    });
    if (!sent.ok()) context.TryCancel();
    chunk.clear_data();
    if (sent.ok() && taken) writer->Write(chunk);
    writer->WritesDone();
    const absl::Status answer = FromGrpc(writer->Finish());
    return sent.ok() ? answer : sent;
  }

  absl::Status Pull(const proto::RelayRequest& request) {
    ASSIGN_OR_RETURN(const std::shared_ptr<Stub> stub, StubFor(request.peer()));
    ASSIGN_OR_RETURN(MemoryFolder::Incoming incoming, own_.folder().Receive(request.key()));
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(kLongCall));
    const auto reader = stub->Get(&context, RequestFor(request.key()));
    proto::PeerChunk chunk;
    absl::Status written;
    while (written.ok() && reader->Read(&chunk)) written = incoming.Append(chunk.data());
    if (!written.ok()) context.TryCancel();
    const absl::Status read = FromGrpc(reader->Finish());
    RETURN_IF_ERROR(written);
    RETURN_IF_ERROR(read);
    return incoming.Commit();
  }

  Server& own_;
  const Credentials credentials_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Stub>> stubs_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<PeerMemory>> PeerMemory::Start(const Options& options) {
  std::unique_ptr<PeerMemory> memory(new PeerMemory);
  memory->service_ = std::make_unique<Server>(options.folder, options.job);
  memory->relay_ = std::make_unique<Relay>(*memory->service_, options.credentials);
  ASSIGN_OR_RETURN(memory->listener_,
                   Listener::Open({.address = options.address, .max_connections = kMaxPeerConnections}));
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder);
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  memory->listener_->AddTo(builder, options.credentials.ForServer());
  builder.RegisterService(memory->service_.get());
  memory->server_ = builder.BuildAndStart();
  if (memory->server_ == nullptr) return absl::InternalError("the peer memory service did not start");
  memory->listener_->Serve();
  const bool v6 = absl::StrContains(options.address, ":");
  memory->address_ = absl::StrCat(v6 ? "[" : "", options.address, v6 ? "]:" : ":", memory->listener_->port());
  return memory;
}

PeerMemory::~PeerMemory() {
  listener_.reset();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

grpc::Service* PeerMemory::relay() { return relay_.get(); }

}  // namespace composer

// A launcher's side of the rendezvous: one stream for membership, and the channel for the key-value store.
//
//   Connect -> Join -> World 1 -> … GenerationOver or ReportGenerationEnded -> Join -> World 2 -> … -> Leave
//   the stream ends -> another client: Connect -> Reattach -> … as if nothing had happened
//
// The stream is the node's life sign: when it ends without Leave (crash, destructor, network), the others see this node
// as lost.
// Threads: all methods may be called from any thread; Join by one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/rendezvous.pb.h"
#include "rendezvous/transport/credentials.h"

namespace composer {

class RendezvousClient {
 public:
  struct Options {
    std::string address;  // host:port of the rendezvous, or unix:/path
    std::string job;
    std::string incarnation;  // random, of this process; not empty
    proto::NodeInfo node;
    proto::MembershipRecord record;  // of an earlier client's record(), if there was one
    std::function<int()> free_port;  // asked before each Join, for NodeInfo.free_port; may be empty
    // Called with each change of record(), before the rendezvous hears that this node knows of it, and with lock held:
    // must be quick. May be empty.
    std::function<void(const proto::MembershipRecord&)> remember;
    Credentials credentials;           // None, or what the server asks for
    Clock* clock = &RealClock::Get();  // must outlive the client
    absl::Duration connect_timeout = absl::Seconds(30);
    int max_nodes = 1;  // of the job: sets the timeouts of life signs (timeouts.h)
  };

  // Waits for a server that is not up yet. Errors of OpenChannel: kUnavailable (none answered in time), kUnauthenticated.
  static absl::StatusOr<std::unique_ptr<RendezvousClient>> Connect(Options options);
  // Without Leave before it, the node is lost to the others. Waits for a running handler.
  ~RendezvousClient();

  // Joins the next generation and blocks until its World. While the node is in a running world this ends that one for
  // all. kInvalidArgument: refused, the message names the field. kFailedPrecondition: refused for the moment; the stream is
  // over, another client may ask again. kDeadlineExceeded: no world within `timeout`; may be
  // called again. kUnavailable and other codes: the stream is over, the client is of no more use.
  // `tally`: the restarts that this node has counted.
  absl::StatusOr<proto::World> Join(absl::Duration timeout, const proto::RestartTally& tally = {});

  // Instead of Join on a new client, while the workers of record() run: tells a coordinator that was away of its world
  // and of the keys this node remembers. kAborted: that generation is over, the message says why; Join. kDeadlineExceeded
  // and other codes: the client is of no more use.
  absl::Status Reattach(std::vector<proto::KeyMemory> keys, absl::Duration timeout);

  // The part in the newest world that this node has heard of.
  proto::MembershipRecord record() const;

  // The handler runs for a World that Join returned, when its generation is over for a cause that another node reported;
  // again when a better cause has come up before the next World, also while Join waits for that; once when the
  // rendezvous is lost (the cause then has no node_id); not after Leave, not from the destructor. It runs on a gRPC thread, must not block and may call ReportGenerationEnded. Set it before Join.
  void OnGenerationOver(std::function<void(const proto::GenerationOver&)> handler);

  // The world is to form again, with more nodes: end the workers and Join. As OnGenerationOver.
  void OnResize(std::function<void(const proto::Resize&)> handler);

  // A world formed without this node, which goes on waiting in Join. As OnGenerationOver.
  void OnSpare(std::function<void(const proto::Spare&)> handler);

  // Someone asks how this node is doing: answer with Report, at once or later. As OnGenerationOver, at any time.
  void OnLook(std::function<void()> handler);
  void Report(const proto::NodeReport& report);

  // The rendezvous asks whether this node reaches another's launcher: answer with Answer, soon. As OnLook.
  void OnProbe(std::function<void(const proto::Probe&)> handler);
  void Answer(const proto::Probed& probed);

  // This node's workers are gone or going; the others are told. The first cause of a generation counts. kUnavailable:
  // the stream is over.
  absl::Status ReportGenerationEnded(const proto::FailureCause& cause);

  // Tells the others that this node goes on purpose, and waits (at most a second) until that is sent.
  void Leave(absl::string_view reason);

  // For KeyValue stubs and KeyValueProxy.
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }

 private:
  class Stream;

  RendezvousClient(Options options, std::shared_ptr<grpc::Channel> channel);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stream> stream_;
};

}  // namespace composer

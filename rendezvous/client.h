// A launcher's side of the rendezvous: one stream for membership, and the channel for the key-value store.
//
//   Connect -> Join -> World 1 -> … GenerationOver or ReportGenerationEnded -> Join -> World 2 -> … -> Leave
//   the stream ends -> another client: Connect -> Reattach -> … as if nothing had happened
//
// The stream is the node's sign of life: when it ends without Leave (crash, destructor, network), the others regard
// this node as lost.
// Thread-safe, except that Join may be called by only one thread at a time.
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
    std::string incarnation;  // random, one per process; not empty
    proto::NodeInfo node;
    proto::MembershipRecord record;  // an earlier client's record(), if there was one
    std::function<int()> free_port;  // called before each Join to fill NodeInfo.free_port; may be empty
    // Called with each change of record(), before the rendezvous hears that this node knows of it. It runs with the
    // lock held, so it must be quick. May be empty.
    std::function<void(const proto::MembershipRecord&)> remember;
    Credentials credentials;           // None, or what the server requires
    Clock* clock = &RealClock::Get();  // must outlive the client
    absl::Duration connect_timeout = absl::Seconds(30);
    int max_nodes = 1;  // of the job; determines the keepalive timeouts (timeouts.h)
  };

  // Waits for a server that is not up yet. Returns the errors of OpenChannel: kUnavailable (no answer in time),
  // kUnauthenticated.
  static absl::StatusOr<std::unique_ptr<RendezvousClient>> Connect(Options options);
  // Without a preceding Leave, the other nodes regard this node as lost. Waits for a running handler.
  ~RendezvousClient();

  // Joins the next generation and blocks until its World arrives. If the node is in a running world, joining ends that
  // world for all nodes.
  // kInvalidArgument: refused; the message names the field.
  // kFailedPrecondition: refused for now; the stream is over, and another client may ask again.
  // kDeadlineExceeded: no world formed within `timeout`; Join may be called again.
  // kUnavailable and other codes: the stream is over, and the client is no longer usable.
  // `tally` holds the restarts that this node has counted.
  absl::StatusOr<proto::World> Join(absl::Duration timeout, const proto::RestartTally& tally = {},
                                    bool checkpointed = false);

  // Replaces Join on a new client while the workers of record() run: informs a coordinator that was away of its world
  // and of the keys that this node remembers.
  // kAborted: that generation is over and the message says why; call Join.
  // kDeadlineExceeded and other codes: the client is no longer usable.
  absl::Status Reattach(std::vector<proto::KeyMemory> keys, absl::Duration timeout);

  // Returns this node's part in the newest world that it has heard of.
  proto::MembershipRecord record() const;

  // Sets the handler for the end of a world that Join returned. It is called when another node reports a cause; again
  // when a better cause comes up before the next World, also while Join waits for that World; and once when the
  // rendezvous is lost (the cause then has no node_id). It is not called after Leave, nor from the destructor. It runs
  // on a gRPC thread, must not block and may call ReportGenerationEnded. Must be set before Join.
  void OnGenerationOver(std::function<void(const proto::GenerationOver&)> handler);

  // Sets the handler for a resize: the world is to form again with more nodes, so end the workers and Join. The rules
  // of OnGenerationOver apply.
  void OnResize(std::function<void(const proto::Resize&)> handler);

  // Sets the handler for a world that formed without this node, which keeps waiting in Join. The rules of
  // OnGenerationOver apply.
  void OnSpare(std::function<void(const proto::Spare&)> handler);

  // Sets the handler for a request to report how this node is doing; answer with Report, at once or later. It may be
  // called at any time; otherwise the rules of OnGenerationOver apply.
  void OnLook(std::function<void()> handler);
  void Report(const proto::NodeReport& report);

  // Sets the handler for a request to check whether this node reaches another node's launcher; answer with Answer,
  // soon. The rules of OnLook apply.
  void OnProbe(std::function<void(const proto::Probe&)> handler);
  void Answer(const proto::Probed& probed);

  // Reports to the other nodes that this node's workers are gone or going. The first cause of a generation counts.
  // kUnavailable: the stream is over.
  absl::Status ReportGenerationEnded(const proto::FailureCause& cause);

  // Tells the other nodes that this node leaves on purpose, and waits (at most a second) until the message is sent.
  // `done`: because the job is done, which the nodes of its world have agreed on.
  void Leave(absl::string_view reason, bool done = false);

  // Serves KeyValue stubs and KeyValueProxy.
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }

 private:
  class Stream;

  RendezvousClient(Options options, std::shared_ptr<grpc::Channel> channel);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<Stream> stream_;
};

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "worker/connect.h"

#include <unistd.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/printable.h"
#include "trainer/collectives/c10d_communicator.h"
#include "trainer/collectives/host_group.h"
#include "trainer/collectives/process_group.h"
#include "trainer/collectives/tcp_store.h"
#include "trainer/core/torch_status.h"
#include "worker/exit_codes.h"
#include "worker/peer_store.h"
#include "worker/store.h"

namespace composer {

proto::ExitReport ReportOf(const WorkerContext& context, const absl::Status& status) {
  proto::ExitReport report;
  report.set_rank(context.place.rank);
  report.set_code(static_cast<int>(status.code()));
  report.set_message(std::string(status.message()));
  report.set_batch(context.supervision->batch());
  report.set_samples(context.supervision->samples());
  return report;
}

namespace {

std::string AddressKey(int launcher) { return absl::StrCat("address/", launcher); }

// Returns the memory tier of this world as a PeerStore; null when the launcher keeps none. Must be called by all ranks.
// `addresses` is a store for keys that never change once set, used only for this; null with one rank. `hub` is the
// channel to the launcher's socket. Throws what the store throws.
std::shared_ptr<ObjectStore> OpenPeerMemory(const RankEnvironment& place, const std::shared_ptr<grpc::Channel>& hub,
                                            const c10::intrusive_ptr<c10d::Store>& addresses) {
  if (place.peer_memory.empty()) return nullptr;
  PeerStore::Options options = {.folder = place.peer_memory, .hub = hub, .peers = {}};
  if (place.launchers > 1 && addresses != nullptr && !place.peer_address.empty()) {
    addresses->set(AddressKey(place.node_rank), place.peer_address);  // all workers of a node set the same value
    std::vector<std::string> keys;
    for (const int peer : PeersInOrder(place.node_rank, place.launchers)) keys.push_back(AddressKey(peer));
    for (const auto& value : addresses->multiGet(keys)) options.peers.emplace_back(value.begin(), value.end());
  }
  return std::make_shared<PeerStore>(options);
}

// NCCL's own time-out comes after the watch's, which knows more.
constexpr std::chrono::seconds kWatchFirst{60};

// Reports a collective that hangs, and ends the process: the training thread may wait for it without end.
[[noreturn]] void EndStuck(WorkerContext& context, const absl::Status& status) {
  absl::FPrintF(stderr, "error: %s\n", PrintableText(status.message()));
  context.agent->Finish(ReportOf(context, status));
  _exit(ExitCodeFor(status.code()));
}

std::shared_ptr<CollectiveWatch> WatchNccl(WorkerContext& context, const Job& job,
                                           const c10::intrusive_ptr<c10d::Store>& root,
                                           std::chrono::milliseconds timeout) {
  CollectiveWatch::Options options;
  options.device = context.device;
  options.timeout = timeout;
  options.check_calls = job.debug_collectives;
  options.store = c10::make_intrusive<c10d::PrefixStore>("watch", root);
  options.record_path =
      JoinPath(job.run_folder, absl::StrFormat("logs/collectives-rank-%05d.json", context.place.rank));
  options.backend_record = [cuda = context.cuda] { return cuda->FlightRecord(); };
  options.on_stuck = [&context](const absl::Status& status) { EndStuck(context, status); };
  return std::make_shared<CollectiveWatch>(std::move(options));
}

std::unique_ptr<Communicator> ConnectNccl(WorkerContext& context, const Job& job,
                                          const c10::intrusive_ptr<c10d::Store>& root,
                                          std::chrono::milliseconds timeout) {
  const C10dCommunicator::GroupFactory connect = [=, cuda = context.cuda](const std::string& name, int rank, int size) {
    NcclOptions options;
    options.rank = rank;
    options.world_size = size;
    options.timeout = timeout + kWatchFirst;
    const auto store = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("nccl/", name), root);
    const auto group = cuda->CreateNcclGroup(store, options);
    NeverDestroy(group);
    return group;
  };
  const auto world = connect("world", context.place.rank, context.place.world_size);
  std::atomic_store(&context.watch, WatchNccl(context, job, root, timeout));
  return std::make_unique<C10dCommunicator>(world, context.device, connect, "", context.watch);
}

struct Stores {
  c10::intrusive_ptr<c10d::Store> changing, written_once;
};

std::unique_ptr<Communicator> ConnectHosts(const WorkerContext& context, const Job& job, const Stores& stores,
                                           std::chrono::milliseconds timeout) {
  HostGroupOptions options;
  options.store = stores.written_once;
  options.changing_store = stores.changing;
  options.collectives = job.collectives;
  options.address = OwnAddress(context.place);
  options.timeout = timeout;
  options.check_calls = job.debug_collectives;
  options.never_destroy = true;
  return ConnectHostGroup(options, context.place.rank, context.place.world_size);
}

}  // namespace

absl::Status Connect(WorkerContext& context, const Job& job) {
  if (context.place.world_size == 1) {
    context.communicator = std::make_unique<LocalCommunicator>(context.device);
    context.memory = OpenPeerMemory(context.place, context.hub, nullptr);
    return absl::OkStatus();
  }
  context.supervision->OnPhase(RunPhase::kConnecting);
  return CatchTorch([&] {
    const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(job.dist_timeout_seconds * 1000));
    Stores stores;
    if (context.place.has_launcher()) {
      stores.changing = c10::make_intrusive<RendezvousStore>(context.hub, context.caller, timeout);
      stores.written_once =
          c10::make_intrusive<RendezvousStore>(context.hub, context.caller, timeout, /*write_once=*/true);
    } else {
      stores.changing = stores.written_once = context.tcp_store = ConnectTcpStore(context.place, timeout);
    }
    context.communicator = context.cuda != nullptr ? ConnectNccl(context, job, stores.changing, timeout)
                                                   : ConnectHosts(context, job, stores, timeout);
    context.memory = OpenPeerMemory(context.place, context.hub,
                                    c10::make_intrusive<c10d::PrefixStore>("peer_memory", stores.written_once));
    context.store = c10::make_intrusive<c10d::PrefixStore>("checkpoint", stores.changing);
  });
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/host_group.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/strings/str_cat.h"
#include "trainer/collectives/c10d_transport.h"
#include "trainer/collectives/process_group.h"
#include "trainer/collectives/shared_memory_transport.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

std::unique_ptr<HostTransport> ConnectGloo(const HostGroupOptions& options, const std::string& name, int rank,
                                           int size) {
  GlooGroupOptions gloo;
  gloo.store = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("gloo/", name), options.store);
  gloo.rank = rank;
  gloo.world_size = size;
  gloo.address = options.address;
  gloo.timeout = options.timeout;
  const c10::intrusive_ptr<c10d::Backend> backend = ConnectGlooGroup(gloo);
  if (options.never_destroy) NeverDestroy(backend);
  c10::intrusive_ptr<c10d::Store> last_calls;
  if (options.check_calls && options.changing_store != nullptr) {
    last_calls = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("collectives/", name), options.changing_store);
  }
  return std::make_unique<C10dTransport>(backend, options.check_calls, last_calls);
}

// Large slots need few rounds for large tensors, and each round makes the ranks wait for each other. All slots of a
// group take at most 64 MiB.
int64_t SlotBytes(int size) { return std::min<int64_t>(4 << 20, (32 << 20) / size / 4096 * 4096); }

std::unique_ptr<HostTransport> ConnectTransport(const HostGroupOptions& options, const std::string& name, int rank,
                                                int size) {
  if (options.collectives == HostCollectives::kGloo) return ConnectGloo(options, name, rank, size);
  const auto store = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("memory/", name), options.store);
  SharedSegment::Options segment;
  segment.rank = rank;
  segment.size = size;
  segment.slot_bytes = SlotBytes(size);
  segment.timeout = absl::FromChrono(options.timeout);
  absl::StatusOr<std::unique_ptr<HostTransport>> transport = SharedMemoryTransport::Connect(*store, segment);
  if (transport.ok()) return *std::move(transport);
  if (options.collectives == HostCollectives::kSharedMemory) throw StatusError(transport.status());
  return ConnectGloo(options, name, rank, size);
}

}  // namespace

std::unique_ptr<Communicator> ConnectHostGroup(const HostGroupOptions& options, int rank, int size) {
  const HostCommunicator::GroupFactory connect = [options](const std::string& name, int its_rank, int its_size) {
    return ConnectTransport(options, name, its_rank, its_size);
  };
  return std::make_unique<HostCommunicator>(connect("world", rank, size), HostCommunicator::Options{}, connect);
}

}  // namespace composer

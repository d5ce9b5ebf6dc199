// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/tcp_store.h"

#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "net/network_facts.h"

namespace composer {
namespace {

constexpr char kLeft[] = "composer/left";
constexpr char kOutside[] = "192.0.2.1";  // RFC 5737; no packet is sent to it

}  // namespace

c10::intrusive_ptr<c10d::Store> ConnectTcpStore(const RankEnvironment& place, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.master_port);
  options.isServer = place.rank == 0 && !place.agent_store;
  options.waitWorkers = false;  // forming the process group waits for all ranks
  options.timeout = timeout;
  options.multiTenant = true;
  try {
    const auto store = c10::make_intrusive<c10d::TCPStore>(place.master_address, options);
    return c10::make_intrusive<c10d::PrefixStore>(place.store_prefix, store);
  } catch (const c10::Error& error) {
    const char* what = options.isServer ? " cannot serve the store at " : " cannot reach the store at ";
    C10_THROW_ERROR(DistStoreError,
                    absl::StrCat("rank ", place.rank, what, place.master_address, ":", place.master_port,
                                 " (MASTER_ADDR, MASTER_PORT): ", error.what_without_backtrace()));
  }
}

void LeaveTcpStore(const RankEnvironment& place, c10d::Store& store, std::chrono::milliseconds limit) {
  try {
    int64_t left = store.add(kLeft, 1);
    if (place.rank != 0 || place.agent_store) return;
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (left < place.world_size && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      left = store.add(kLeft, 0);
    }
  } catch (const c10::Error&) {  // the store is gone: nobody waits for us
  }
}

std::string AddressTowards(const std::string& master) {
  const auto addresses = ResolveHost(master);
  const std::string source = addresses.ok() && !addresses->empty() ? SourceAddress(addresses->front()) : "";
  if (!source.empty() && !absl::StartsWith(source, "127.")) return source;
  if (absl::StartsWith(master, "127.") || master == "localhost") return "";
  return SourceAddress(kOutside);
}

std::string OwnAddress(const RankEnvironment& place) {
  if (!place.spans_nodes()) return "";
  return place.has_launcher() ? place.node_address : AddressTowards(place.master_address);
}

}  // namespace composer

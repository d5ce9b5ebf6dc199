// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/run_lease.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/machine_stats.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// `ranks` has each rank's "<run id>/<launch>".
absl::StatusOr<LeaseHolder> HolderOf(const State& state, uint64_t generation, const std::vector<std::string>& ranks) {
  LeaseHolder holder;
  holder.run_name = state.identity.run_name;
  holder.generation = generation;
  holder.process = absl::StrCat(HostName(), ", pid ", getpid());
  for (const std::string& rank : ranks) {
    const std::pair<std::string, std::string> id_and_launch = absl::StrSplit(rank, absl::MaxSplits('/', 1));
    if (holder.run_id.empty()) holder.run_id = id_and_launch.first;
    std::vector<std::string>& launches = holder.launches;
    const bool known = std::find(launches.begin(), launches.end(), id_and_launch.second) != launches.end();
    if (!known && launches.size() < kMaxLaunches) launches.push_back(id_and_launch.second);
  }
  if (holder.run_id.empty() && !state.identity.run_folder.empty()) {
    ASSIGN_OR_RETURN(holder.run_id, MakeRunId(state.identity.run_folder));
  }
  return holder;
}

absl::StatusOr<std::unique_ptr<FolderLease>> TakeAsLeader(std::shared_ptr<ObjectStore> folder, const State& state,
                                                          uint64_t generation,
                                                          const absl::StatusOr<std::vector<std::string>>& ranks,
                                                          const FolderLeaseOptions& options) {
  RETURN_IF_ERROR(ranks.status());
  ASSIGN_OR_RETURN(LeaseHolder holder, HolderOf(state, generation, *ranks));
  return FolderLease::Acquire(std::move(folder), std::move(holder), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLease>> TakeRunLease(std::shared_ptr<ObjectStore> folder, RankExchange& exchange,
                                                          const State& state, const LaunchId& launch,
                                                          const FolderLeaseOptions& options) {
  const auto ranks = exchange.Gather(absl::StrCat(ReadRunId(state.identity.run_folder), "/", launch.id));
  absl::StatusOr<std::unique_ptr<FolderLease>> lease = nullptr;
  if (exchange.rank() == 0) lease = TakeAsLeader(std::move(folder), state, launch.generation, ranks, options);
  RETURN_IF_ERROR(exchange.Broadcast(lease.ok() ? absl::StatusOr<std::string>("") : lease.status()).status());
  return lease;
}

}  // namespace composer

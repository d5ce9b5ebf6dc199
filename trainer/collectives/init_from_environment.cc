// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/init_from_environment.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/collectives/launcher_variables.h"
#include "trainer/collectives/tcp_store.h"
#include "trainer/core/torch_status.h"
#include "trainer/options/trainer_options.h"

namespace composer {

Ranks::~Ranks() = default;

void Ranks::Connect(const InitOptions& options) {
  if (place_.world_size == 1) {
    communicator_ = std::make_unique<LocalCommunicator>();
    return;
  }
  store_ = ConnectTcpStore(place_, options.timeout);
  program_store_ = c10::make_intrusive<c10d::PrefixStore>("program", store_);
  HostGroupOptions group;
  group.store = store_;
  group.collectives = options.collectives;
  group.address = OwnAddress(place_);
  group.timeout = options.timeout;
  communicator_ = ConnectHostGroup(group, place_.rank, place_.world_size);
}

void Ranks::GiveTo(TrainerOptions& options) {
  options.communicator = communicator_.get();
  if (store_ != nullptr) {
    options.store = c10::make_intrusive<c10d::PrefixStore>(absl::StrCat("trainer", trainers_++), store_);
  }
  options.launch = {place_.launch, place_.generation};
}

void Ranks::Leave(std::chrono::milliseconds limit) {
  if (store_ != nullptr) LeaveTcpStore(place_, *store_, limit);
}

absl::StatusOr<std::unique_ptr<Ranks>> InitFromEnvironment(const InitOptions& options, const Environment& environment) {
  EnsureLogging();
  ASSIGN_OR_RETURN(RankEnvironment place, ReadRankEnvironment(WithRankVariables(environment)));
  if (place.world_size > 1 && (place.master_address.empty() || place.master_port == 0)) {
    return absl::FailedPreconditionError(absl::StrCat("WORLD_SIZE is ", place.world_size, ", but ",
                                                      place.master_address.empty() ? "MASTER_ADDR" : "MASTER_PORT",
                                                      " is not set: the ranks have nowhere to meet"));
  }
  std::unique_ptr<Ranks> ranks(new Ranks(std::move(place)));
  RETURN_IF_ERROR(CatchTorch([&] { ranks->Connect(options); }));
  return ranks;
}

}  // namespace composer

// Rendezvous of ranks that no Composer launcher has started: c10d's TCPStore at MASTER_ADDR:MASTER_PORT. torchrun's
// agent serves one there (TORCHELASTIC_USE_AGENT_STORE is True); elsewhere (srun, mpirun) rank 0 does, as in
// torch.distributed with init_method env://.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/collectives/rank_environment.h"

namespace composer {

// Throws c10::DistStoreError, naming the address, when nobody serves there in time or rank 0 cannot.
c10::intrusive_ptr<c10d::Store> ConnectTcpStore(const RankEnvironment& place, std::chrono::milliseconds timeout);

// Must be called when a rank is done. If rank 0 serves the store, it waits, at most `limit`, until all others are done:
// they may still read from it. Throws nothing.
void LeaveTcpStore(const RankEnvironment& place, c10d::Store& store, std::chrono::milliseconds limit);

// Returns this machine's address that packets to the master come from, never 127.0.1.1 from /etc/hosts; "": loopback
// will do.
std::string AddressTowards(const std::string& master);

// Returns the address at which the other ranks reach this machine: what the launcher says, or else what leads towards
// the master; "" when all ranks are on this machine.
std::string OwnAddress(const RankEnvironment& place);

}  // namespace composer

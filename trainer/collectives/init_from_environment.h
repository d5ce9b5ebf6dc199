// A program of one's own on several ranks: finds the ranks that its launcher has started, and connects them.
//
//   auto ranks = composer::InitFromEnvironment();
//   if (!ranks.ok()) …
//   composer::TrainerOptions options;
//   …
//   (*ranks)->GiveTo(options);
//   auto trainer = composer::Trainer::Create(std::move(options));
//   const absl::Status status = (*trainer)->Fit();
//   trainer->reset();
//   (*ranks)->Leave();
//
// The launcher is `composer -n 2 ./program`, torchrun (`--no-python`), srun, mpirun, or a shell that sets RANK,
// WORLD_SIZE, MASTER_ADDR and MASTER_PORT; mpirun needs the last two as well (rank_environment.h and
// launcher_variables.h have the variables). Without any of them the program is a world of one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "trainer/collectives/host_group.h"
#include "trainer/collectives/rank_environment.h"
#include "trainer/core/communicator.h"

namespace composer {

struct TrainerOptions;

struct InitOptions {
  HostCollectives collectives = HostCollectives::kAuto;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);  // of connecting and of each collective
};

// The ranks of a program, connected with each other. Threads: as Communicator. The destructor waits for nobody.
class Ranks {
 public:
  ~Ranks();

  int rank() const { return place_.rank; }
  int world_size() const { return place_.world_size; }
  int local_rank() const { return place_.local_rank; }
  int local_world_size() const { return place_.local_world_size; }
  // Returns the collectives of CPU tensors: over shared memory or Gloo; a LocalCommunicator with one rank.
  Communicator& communicator() { return *communicator_; }
  // Returns a store that the ranks share, for keys of the program's own (below "program/"); null with one rank. A
  // backend of the program's own, such as NCCL's, can be made with it and given to the trainer as a C10dCommunicator.
  const c10::intrusive_ptr<c10d::Store>& store() const { return program_store_; }

  // Sets the communicator, the store and the launch of a trainer, which must not outlive this object. May be called for
  // several trainers: their stores have different keys if all ranks call it in the same order.
  void GiveTo(TrainerOptions& options);

  // Must be called last, when this rank is done: if rank 0 serves the store of the others, it waits here, at most
  // `limit`, until they are done as well. A rank that has failed does not call it. Nothing may be used afterwards.
  void Leave(std::chrono::milliseconds limit = std::chrono::seconds(30));

 private:
  friend absl::StatusOr<std::unique_ptr<Ranks>> InitFromEnvironment(const InitOptions& options,
                                                                    const Environment& environment);
  explicit Ranks(RankEnvironment place) : place_(std::move(place)) {}
  void Connect(const InitOptions& options);

  const RankEnvironment place_;
  c10::intrusive_ptr<c10d::Store> store_, program_store_;
  std::unique_ptr<Communicator> communicator_;
  int trainers_ = 0;
};

// Connects this process with the other ranks; all of them must call it, once. Blocks until all are there. Starts no
// thread that outlives Ranks, and changes neither torch's settings nor the process's, except that SIGPIPE, which Gloo
// raises when a peer is gone, is ignored if the program has no handler; warnings go to stderr (EnsureLogging in
// base/log.h). Throws nothing: kInvalidArgument names a variable and its value; kFailedPrecondition:
// there are several ranks, but MASTER_ADDR and MASTER_PORT do not say where they meet, or shared memory was requested
// and is not available; kUnavailable: a rank did not come in time.
absl::StatusOr<std::unique_ptr<Ranks>> InitFromEnvironment(const InitOptions& options = {},
                                                           const Environment& environment = Environment::FromProcess());

}  // namespace composer

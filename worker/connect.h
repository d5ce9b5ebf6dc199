// What the parts of a worker share, and how its rank meets the others: over the launcher's key-value store, or one of
// the ranks' own, and then over NCCL (GPUs) or the hosts' collectives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "absl/status/status.h"
#include "job/job.h"
#include "proto/worker.pb.h"
#include "storage/object_store.h"
#include "trainer/collectives/collective_watch.h"
#include "trainer/collectives/rank_environment.h"
#include "trainer/core/communicator.h"
#include "trainer/trainer.h"
#include "worker/agent_supervision.h"
#include "worker/cuda/cuda_loader.h"

namespace composer {

// Lives until the process ends.
struct WorkerContext {
  RankEnvironment place;
  std::shared_ptr<grpc::Channel> hub;
  proto::Caller caller;
  std::unique_ptr<WorkerAgent> agent;
  std::unique_ptr<AgentSupervision> supervision;
  CudaModule* cuda = nullptr;  // set with device: gpu
  at::Device device = at::kCPU;
  std::shared_ptr<CollectiveWatch> watch;  // of NCCL's groups; set atomically, read by the agent's thread
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<GraphCapture> graphs;       // with cuda_graphs
  c10::intrusive_ptr<c10d::Store> tcp_store;  // set without Composer's launcher
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<ObjectStore> memory;  // the memory tier of checkpoints; null: none
  std::unique_ptr<Trainer> trainer;
};

// Returns what every report of an end says.
proto::ExitReport ReportOf(const WorkerContext& context, const absl::Status& status);

// Sets the communicator, the stores and the memory tier. Gives each user of the store its own prefix. A collective of
// NCCL that hangs later ends the process, with a report.
absl::Status Connect(WorkerContext& context, const Job& job);

}  // namespace composer

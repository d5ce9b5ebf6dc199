// A process group on the mock that behaves as NCCL's does: a collective is queued on a stream of the group's own, after
// what the calling stream has queued; Work::wait makes the current stream wait, and never the host; a collective runs
// when all ranks have come to it, and hangs if their calls differ; abort ends it with an error. Sums have the order of
// trainer/collectives/tree_sum.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/support/accelerator/exchange.h"
#include "tests/support/accelerator/machine.h"

namespace composer::mock {

class MockGroup final : public c10d::Backend {
 public:
  // Of ranks that are threads of this process, each with a device. The group uses the calling thread's current device.
  // All ranks call this with the same store.
  MockGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size);
  // Of ranks that meet in `exchange`.
  MockGroup(std::shared_ptr<Exchange> exchange, int rank, int size);
  const std::string getBackendName() const override { return "mock"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) override;
  // Of all ranks: what is queued ends with an error that the next wait of the host shows.
  void abort() override;

 private:
  c10::intrusive_ptr<c10d::Work> Start(const std::string& kind, const at::Tensor& output, const at::Tensor& input,
                                       int root);

  std::shared_ptr<Exchange> exchange_;
  int stream_;
  std::shared_ptr<uint64_t> sequence_ = std::make_shared<uint64_t>(0);  // graphs have it, too
};

}  // namespace composer::mock

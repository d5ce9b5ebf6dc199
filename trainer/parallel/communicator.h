// Collectives among the ranks of a run: the seam between the trainer and c10d.
// Implementations: LocalCommunicator (one rank), C10dCommunicator (Gloo, NCCL). Conformance:
// tests/conformance/communicator_suite.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace composer {

// A collective under way. Wait returns when the result is in the tensor; on a GPU, when the current stream will see it.
// Throws c10::DistError (or the backend's error) when a peer is lost. The tensor must not be touched before.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  virtual void Wait() = 0;
};

// Threads: one. All ranks call the same methods in the same order with the same shapes and dtypes.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Where tensors must be. NCCL: this rank's GPU.
  virtual at::Device device() const { return at::kCPU; }
  // Starts tensor = sum over ranks, in place; contiguous tensors only. Never null.
  virtual std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) = 0;
  // Starts output = [input of rank 0, input of rank 1, …]. output.numel() == world_size * input.numel(); one dtype; both
  // contiguous. input may be this rank's own part of output (nothing is copied), else they do not overlap. Never null.
  virtual std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) = 0;
  // Starts output = sum over ranks of the rank-th of world_size equal parts of their inputs. Same rules; output may be
  // this rank's own part of input. What is in the rest of input afterwards is undefined. Never null.
  virtual std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) = 0;
  // tensor = root's tensor.
  virtual void Broadcast(at::Tensor tensor, int root) = 0;

  void AllReduceSum(const at::Tensor& tensor) { StartAllReduceSum(tensor)->Wait(); }
  // Host memory, summed in place, through the device when there is one.
  void AllReduceSum(absl::Span<double> values);
  // Collectives started so far, for tests that count them.
  int64_t num_collectives() const { return num_collectives_; }

 protected:
  int64_t num_collectives_ = 0;
};

}  // namespace composer

// Communicator provides the collectives among the ranks of a run: the seam between the trainer and c10d.
// Implementations: LocalCommunicator (one rank), HostCommunicator (CPU memory: shared memory or Gloo), C10dCommunicator
// (a plain c10d backend: NCCL). Conformance: tests/conformance/communicator_suite.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "trainer/core/tracer.h"

namespace composer {

// A PendingCollective is a collective in flight. Wait returns when the result is in the tensor; on a GPU, when the
// current stream will see it. Throws StatusError, or the backend's error, when a peer is lost. The tensor must not be
// touched before Wait returns.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  virtual void Wait() = 0;
};

// Threads: one. All ranks call the same methods in the same order with the same shapes and dtypes.
//
// Sums are added in one order, the same for every collective and wherever an element lies in its buffer: a binary tree
// over the ranks (tree_sum.h). Results therefore do not depend on the strategy, and a sum over a mesh's rows and then
// its columns has the same bits as one over all ranks when both are powers of two. bfloat16 and half are summed in
// float32. A plain backend (C10dCommunicator) has its own order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Returns the device on which tensors must be. NCCL: this rank's GPU.
  virtual at::Device device() const { return at::kCPU; }
  // Returns whether sums are added in the order above.
  virtual bool sums_in_tree_order() const { return true; }
  // Starts tensor = sum over ranks, in place. The tensor must be contiguous. Never returns null.
  virtual std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) = 0;
  // Starts output = [input of rank 0, input of rank 1, …]. Requires output.numel() == world_size * input.numel(), one
  // dtype, and both contiguous. input may be this rank's own part of output (nothing is copied), else they must not
  // overlap. Never returns null.
  virtual std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) = 0;
  // Starts output = the sum over ranks of this rank's part, the rank-th of world_size equal parts, of each input. The
  // same rules hold; output may be this rank's own part of input. The rest of input is undefined afterwards. Never
  // returns null.
  virtual std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) = 0;
  // Sets tensor to root's tensor.
  virtual void Broadcast(at::Tensor tensor, int root) = 0;

  void AllReduceSum(const at::Tensor& tensor) { StartAllReduceSum(tensor)->Wait(); }
  // Sums host memory in place, through the device when there is one.
  void AllReduceSum(absl::Span<double> values);

  // Returns the group of the ranks that pass the same color, ranked as here. A collective: all ranks call it in the
  // same order with the same name, which no other group has ([a-z0-9_]+). The result must not outlive this
  // communicator. A group of one is a LocalCommunicator. Throws what connecting throws.
  std::unique_ptr<Communicator> Split(int color, const std::string& name);

  // Sets the number, from 1, of the unit that the next collective is about; it is 0 again after that collective.
  // Transports compare it among ranks before data moves, so that a tensor is never mistaken for another of the same
  // size.
  void set_unit(uint16_t unit) { unit_ = unit; }

  // Sets where spans go for collectives that begin from now on and for the waits for them. Null, the default, records
  // none. The previous tracer is not used any more, not even by a pending collective. A plain backend (NCCL) is traced
  // by its kernels instead.
  virtual void set_tracer(Tracer* tracer) { tracer_ = tracer; }
  Tracer* tracer() const { return tracer_; }

  // Returns the number of collectives started so far, for tests.
  int64_t num_collectives() const { return num_collectives_; }
  // Returns the bytes that this rank has sent so far in theory, for messages of B bytes (whole, not a part) over N
  // ranks: all-gather and reduce-scatter (N-1)/N B, all-reduce twice that, broadcast (N-1) B at the root. The wire may
  // carry more for small messages.
  int64_t bytes_sent() const { return bytes_sent_; }

 protected:
  // Returns a communicator for `size` >= 2 ranks that all pass this name, which is unique in this communicator.
  virtual std::unique_ptr<Communicator> NewGroup(const std::string& name, int rank, int size) = 0;

  // These count a collective that starts. `whole` is the tensor of all ranks' parts.
  void CountAllReduce(const at::Tensor& tensor) { Count(2 * PartsOfOthers(tensor)); }
  void CountParts(const at::Tensor& whole) { Count(PartsOfOthers(whole)); }
  void CountBroadcast(const at::Tensor& tensor, int root);
  void Count(int64_t bytes) {
    ++num_collectives_;
    bytes_sent_ += bytes;
  }
  // Returns the unit of the collective that starts, and resets it.
  uint16_t TakeUnit() { return std::exchange(unit_, uint16_t{0}); }

 private:
  int64_t PartsOfOthers(const at::Tensor& whole) const {
    return static_cast<int64_t>(whole.nbytes()) * (world_size() - 1) / world_size();
  }

  Tracer* tracer_ = nullptr;
  uint16_t unit_ = 0;
  int64_t num_collectives_ = 0;
  int64_t bytes_sent_ = 0;
};

// Throws c10::ValueError naming the collective unless the tensor is contiguous.
void CheckContiguous(const char* collective, const at::Tensor& tensor);
// Also throws unless `ranks` parts like `part` make a tensor like `whole`.
void CheckParts(const char* collective, const at::Tensor& whole, const at::Tensor& part, int ranks);

// With one rank every collective is the identity and costs nothing.
class LocalCommunicator final : public Communicator {
 public:
  explicit LocalCommunicator(at::Device device = at::kCPU) : device_(device) {}
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  at::Device device() const override { return device_; }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override { return std::make_unique<Done>(); }
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override {
    return Copy(output, input);
  }
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override {
    return Copy(output, input);
  }
  void Broadcast(at::Tensor tensor, int root) override {}

 private:
  struct Done final : PendingCollective {
    void Wait() override {}
  };
  static std::unique_ptr<PendingCollective> Copy(const at::Tensor& output, const at::Tensor& input) {
    if (!output.is_alias_of(input)) output.view(-1).copy_(input.view(-1));
    return std::make_unique<Done>();
  }
  std::unique_ptr<Communicator> NewGroup(const std::string& /*name*/, int /*rank*/, int /*size*/) override {
    return std::make_unique<LocalCommunicator>(device_);
  }

  at::Device device_;
};

}  // namespace composer

// C10dTransport runs host collectives over a c10d backend for CPU tensors (Gloo), with the sums in our order.
//
// The ranks make the sums, not the backend. Reduce-scatter exchanges the parts (all-to-all), then each rank sums what
// it received; all-reduce is that and an all-gather, with the bytes of a ring; small ones are one all-gather. With two
// ranks the backend's own sum has the same bits and is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/collectives/host_transport.h"

namespace composer {

class C10dTransport final : public HostTransport {
 public:
  // With check_calls the ranks compare what they are about to do before each collective (one more all-gather), since
  // Gloo ends the process, or waits forever, when they differ. last_calls may be null; with check_calls it is a store
  // where each rank records its collective, so that a timeout can report where each rank is.
  explicit C10dTransport(c10::intrusive_ptr<c10d::Backend> backend, bool check_calls = false,
                         c10::intrusive_ptr<c10d::Store> last_calls = nullptr);
  ~C10dTransport() override;
  int rank() const override { return backend_->getRank(); }
  int world_size() const override { return backend_->getSize(); }
  void Run(const CollectiveCall& call, const void* input, void* output) override;
  // Gloo itself cannot abort: its threads wait until the peers' sockets close. Run stops waiting for them, and what
  // they use is never freed.
  void Abort() override { aborted_.store(true); }
  bool abandoned() const override { return abandoned_; }

 private:
  // Waits for a collective. Throws StatusError kUnavailable once it is aborted.
  void Await(const c10::intrusive_ptr<c10d::Work>& work);
  void CheckCalls(const CollectiveCall& call);
  void AllReduce(const CollectiveCall& call, void* data);
  void AllReduceInParts(const CollectiveCall& call, std::byte* data);
  void AllGather(const CollectiveCall& call, const void* input, void* output);
  void ReduceScatter(const CollectiveCall& call, const std::byte* input, void* output);
  // Sums world_size consecutive runs of n elements into `out`; `own` replaces the rank's own run.
  void SumRuns(c10::ScalarType dtype, const std::byte* runs, const void* own, int64_t n, void* out);
  std::string OthersLastCalls();
  std::byte* Scratch(int64_t bytes);

  c10::intrusive_ptr<c10d::Backend> backend_;
  bool check_calls_;
  c10::intrusive_ptr<c10d::Store> last_calls_;
  std::atomic<bool> aborted_{false};
  bool abandoned_ = false;   // a collective is still running in the backend
  bool call_error_ = false;  // the error is about the ranks' calls, not from the backend
  at::Tensor scratch_;       // in bytes; grows to the largest need
};

}  // namespace composer

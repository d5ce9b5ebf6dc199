// Injects a failure: one rank dies, hangs or throws at a given batch, once. A user (and our tests) can thereby see a
// recovery before it is needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "trainer/core/callback.h"

namespace composer {

class FailAt final : public Callback {
 public:
  enum class How {
    kKill,   // SIGKILL to itself, as the kernel's OOM killer would
    kAbort,  // SIGABRT, as a failed assertion would
    kExit,   // exits with code 70
    kThrow,  // a callback returns an error
    kHang,   // never returns
  };
  struct Options {
    int rank = 0;
    int64_t batch = 1;  // after this many batches of the run
    How how = How::kKill;
    Event event = Event::kBatchEnd;
    // Instead of at the event, the rank fails as it begins the nth collective of this kind after the event, when the
    // other ranks are in it: "all_reduce", "all_gather", "reduce_scatter" or "broadcast". "" means at the event. It
    // takes the place of a profiler for that batch.
    std::string collective;
    int nth = 1;
    bool armed = true;  // false: does nothing (the worker arms it only in the job's first generation)
  };

  explicit FailAt(const Options& options);
  ~FailAt() override;
  std::string name() const override { return "FailAt"; }
  EventSet events() const override { return EventSet{options_.event}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  class AtCollective;
  absl::Status Fail();

  Options options_;
  std::unique_ptr<AtCollective> at_collective_;
};

}  // namespace composer

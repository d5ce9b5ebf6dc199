// Rehearses a failure: one rank dies, hangs or throws at a given batch, once. So a user (and our tests) can see a recovery before the night it is needed.
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
    kExit,   // leaves with code 70
    kThrow,  // an error out of a callback
    kHang,   // never comes back
  };
  struct Options {
    int rank = 0;
    int64_t batch = 1;  // after this many batches of the run
    How how = How::kKill;
    Event event = Event::kBatchEnd;
    // Not at the event, but as this rank begins the nth collective of a kind after it, when the others are in it: "all_reduce",
    // "all_gather", "reduce_scatter" or "broadcast"; "": at the event. It takes the place of a profiler for that batch.
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

// Holds the span names of one participant in a run, one per event: "event/after_loss" for the engine itself,
// "algorithm/MixUp/event/before_forward", "callback/LRMonitor/event/batch_end". Same names as mosaicml's profiler
// markers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>

#include "trainer/core/event.h"
#include "trainer/core/tracer.h"

namespace composer {

class EventSpans {
 public:
  // `prefix` is like "algorithm/MixUp/"; `category` must be a constant.
  EventSpans(std::string prefix, absl::string_view category);

  // Creates the name at the first use; its address is stable.
  const TraceName& At(Event event);

 private:
  struct Made {
    std::string text;
    TraceName name;
  };
  std::string prefix_;
  absl::string_view category_;
  std::array<std::unique_ptr<Made>, kNumEvents> made_;
};

}  // namespace composer

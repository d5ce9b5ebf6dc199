// The names of the spans of one participant in a run, one for each event: "event/after_loss" for the engine itself,
// "algorithm/MixUp/event/before_forward", "callback/LRMonitor/event/batch_end". As mosaicml's profiler markers.
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
  // prefix: "algorithm/MixUp/"; category: a constant.
  EventSpans(std::string prefix, absl::string_view category);

  // Made at the first use; the address stays.
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

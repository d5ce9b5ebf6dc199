// Graphs of a rank whose collectives are watched: the watch pauses during a capture, since asking whether an event of a
// capture is done is an error. A graph's own collectives are not watched; a rank that hangs in one is found by the
// launcher, as it makes no step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "trainer/collectives/collective_watch.h"
#include "trainer/step/device_graph.h"

namespace composer {

class WatchedGraphs final : public GraphCapture {
 public:
  // `graphs` must outlive this object. `watch` may be null.
  WatchedGraphs(GraphCapture& graphs, std::shared_ptr<CollectiveWatch> watch)
      : graphs_(graphs), watch_(std::move(watch)) {}
  void Begin() override {
    Pause(true);
    graphs_.Begin();
  }
  std::unique_ptr<DeviceGraph> End() override {
    std::unique_ptr<DeviceGraph> graph = graphs_.End();
    Pause(false);
    return graph;
  }
  void Abandon() override {
    graphs_.Abandon();
    Pause(false);
  }

 private:
  void Pause(bool on) {
    if (watch_ != nullptr) watch_->Pause(on);
  }

  GraphCapture& graphs_;
  std::shared_ptr<CollectiveWatch> watch_;
};

}  // namespace composer

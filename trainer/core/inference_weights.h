// The weights that a run's algorithms would have one use, for a scope: with EMA the averages. All ranks alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "trainer/core/callback.h"

namespace composer {

// algorithms: of the state; none of them is in use by another scope or a running evaluation.
class InferenceWeightsScope {
 public:
  explicit InferenceWeightsScope(const std::vector<std::unique_ptr<Algorithm>>& algorithms) : algorithms_(algorithms) {
    for (const auto& algorithm : algorithms_) algorithm->UseForInference(true);
  }
  ~InferenceWeightsScope() {
    for (auto it = algorithms_.rbegin(); it != algorithms_.rend(); ++it) (*it)->UseForInference(false);
  }
  InferenceWeightsScope(const InferenceWeightsScope&) = delete;
  InferenceWeightsScope& operator=(const InferenceWeightsScope&) = delete;

 private:
  const std::vector<std::unique_ptr<Algorithm>>& algorithms_;
};

}  // namespace composer

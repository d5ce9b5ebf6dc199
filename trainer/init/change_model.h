// Surgery: algorithms change a model that was just made (Algorithm::ChangeModel).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/model.h"
#include "trainer/core/passes.h"

namespace composer {

// Returns the algorithms in the order in which they change models: that of the passes at INIT, the user's included.
std::vector<Algorithm*> OrderOfChanges(const std::vector<std::unique_ptr<Algorithm>>& algorithms,
                                       const std::vector<PlacedPass>& placed);

// Lets each algorithm change the model, or put another into its place. If it is going to be split over
// tensor_parallel_degree > 1 ranks by a plan that knows only the model's own layers, a change is kInvalidArgument,
// naming the algorithm and the first layer. An algorithm's own error is returned with its name.
absl::Status ChangeModel(std::shared_ptr<Model>& model, const std::vector<Algorithm*>& algorithms,
                         const ModelContext& context, int tensor_parallel_degree);

// Returns a function that makes a model by `make` and lets the algorithms, which must outlive it, change it. It throws
// StatusError with ChangeModel's errors.
std::function<std::shared_ptr<Model>()> WithChanges(std::function<std::shared_ptr<Model>()> make,
                                                    std::vector<Algorithm*> algorithms, const ModelContext& context,
                                                    int tensor_parallel_degree);

}  // namespace composer

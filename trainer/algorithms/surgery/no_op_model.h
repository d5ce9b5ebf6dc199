// NoOpModel puts a model of one weight in place of the run's, so that the run's speed is that of its data:
//
//   forward: y w, w = 1.5 at first;   loss: mean((y w - y)^2), y the targets
//
// Checkpoints are those of the one weight. There are no metrics (Composer's is BinaryAccuracy of whatever the targets
// are). Source: mosaicml composer/algorithms/no_op_model/no_op_model.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/algorithms/surgery/surgery.h"

namespace composer {

class NoOpModel final : public Surgery {
 public:
  std::string name() const override { return "NoOpModel"; }
  std::shared_ptr<Model> ReplaceModel(std::shared_ptr<Model> model) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
};

}  // namespace composer

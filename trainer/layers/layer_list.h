// Lists of layers, named 0, 1, … like those of torch's ModuleList and Sequential.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/layers/slot.h"

namespace composer {

class LayerList : public torch::nn::Module {
 public:
  LayerList() = default;
  explicit LayerList(const std::vector<std::shared_ptr<torch::nn::Module>>& layers) {
    for (const auto& layer : layers) Add(layer);
  }
  // Throws c10::ValueError for a module that is no Layer.
  void Add(std::shared_ptr<torch::nn::Module> layer) {
    slots_.emplace_back(*this, std::to_string(slots_.size()), std::move(layer));
  }
  size_t size() const { return slots_.size(); }
  Layer& operator[](size_t index) const { return *slots_[index]; }

 private:
  std::vector<Slot<Layer>> slots_;
};

// The layers one after the other.
class LayerSequence final : public LayerList, public Layer {
 public:
  using LayerList::LayerList;
  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor y = x;
    for (size_t i = 0; i < size(); ++i) y = (*this)[i].forward(y);
    return y;
  }
};

}  // namespace composer

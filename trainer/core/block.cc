// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/block.h"

#include "trainer/core/module_call.h"

namespace composer {

at::Tensor BlockWrapper::Inner::operator()(const std::vector<at::Tensor>& inputs) const {
  return block_->RunBelow(wrappers_, inputs);
}

at::Tensor Block::Run(const std::vector<at::Tensor>& inputs) {
  ModuleCall call(*this, inputs.at(0));
  return call.Output(RunBelow(wrappers_.size(), inputs));
}

at::Tensor Block::RunBelow(size_t wrappers, const std::vector<at::Tensor>& inputs) {
  if (wrappers == 0) return Compute(inputs);
  return wrappers_[wrappers - 1]->Run(inputs, BlockWrapper::Inner(*this, wrappers - 1));
}

}  // namespace composer

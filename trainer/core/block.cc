// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/block.h"

#include <c10/util/Exception.h>

#include "trainer/core/module_call.h"

namespace composer {
namespace {

// What stands around a layer that is no Block. The layer owns it.
class LayerCall final : public Layer, public WrappedCall {
 public:
  LayerCall(torch::nn::Module& module, Layer& layer) : module_(module), layer_(layer) {}
  at::Tensor forward(const at::Tensor& x) override { return RunWrapped({x}); }
  at::Tensor Run(const std::vector<at::Tensor>& inputs) override { return RunWrapped(inputs); }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override { return layer_.Run(inputs); }
  torch::nn::Module& wrapped_module() override { return module_; }

 private:
  torch::nn::Module& module_;
  Layer& layer_;
};

}  // namespace

at::Tensor BlockWrapper::Inner::operator()(const std::vector<at::Tensor>& inputs) const {
  return call_->RunBelow(wrappers_, inputs);
}

torch::nn::Module& BlockWrapper::Inner::module() const { return call_->wrapped_module(); }

at::Tensor WrappedCall::RunBelow(size_t wrappers, const std::vector<at::Tensor>& inputs) {
  if (wrappers == 0) return Compute(inputs);
  return wrappers_[wrappers - 1]->Run(inputs, BlockWrapper::Inner(*this, wrappers - 1));
}

at::Tensor Block::Run(const std::vector<at::Tensor>& inputs) {
  ModuleCall call(*this, inputs.at(0));
  return call.Output(RunWrapped(inputs));
}

std::string WhyNotWrapped(const torch::nn::Module& module) {
  if (dynamic_cast<const Block*>(&module) != nullptr) return "";
  const auto* layer = dynamic_cast<const Layer*>(&module);
  if (layer == nullptr) return "it is neither a Block (trainer/core/block.h) nor a Layer (trainer/layers/layer.h)";
  if (!layer->is_in_slot()) return "its model does not hold it in a Slot (trainer/layers/slot.h)";
  return layer->is_known_to_parent() ? "the layer around it uses more of it than its forward" : "";
}

void WrapLayer(torch::nn::Module& module, std::shared_ptr<BlockWrapper> wrapper) {
  const std::string why_not = WhyNotWrapped(module);
  TORCH_CHECK_VALUE(why_not.empty(), "nothing can be put around the calls of a ", module.name(), ": ", why_not);
  if (auto* block = dynamic_cast<Block*>(&module)) {
    block->Wrap(std::move(wrapper));
    return;
  }
  auto& layer = dynamic_cast<Layer&>(module);
  if (&layer.called() == &layer) layer.SetOuter(std::make_unique<LayerCall>(module, layer));
  dynamic_cast<LayerCall&>(layer.called()).Wrap(std::move(wrapper));
}

}  // namespace composer

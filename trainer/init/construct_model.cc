// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/construct_model.h"

#include <c10/util/Exception.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>

#include "trainer/core/random.h"

namespace composer {
namespace {

// Moves buffers, and the parameters that have memory already, of a model.
void MoveFilled(torch::nn::Module& model, at::Device device) {
  const auto move = [&](at::Tensor& tensor) {
    if (!tensor.is_meta() && tensor.device() != device) tensor.set_data(tensor.to(device));
  };
  for (at::Tensor& tensor : model.parameters()) move(tensor);
  for (at::Tensor& tensor : model.buffers()) move(tensor);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

ConstructedModel ConstructModel(const std::function<std::shared_ptr<Model>()>& make, uint64_t seed) {
  ConstructedModel made;
  SeedForConstruction(seed);
  try {
    made.init = std::make_unique<DeferredInit>(seed);
    made.init->Build([&]() -> torch::nn::Module& { return *(made.model = make()); });
    return made;
  } catch (const c10::Error& error) {
    made.whole_because = FirstLine(error.what_without_backtrace());
  } catch (const std::exception& error) {
    made.whole_because = FirstLine(error.what());
  }
  made.init.reset();
  SeedForConstruction(seed);
  made.model = make();
  return made;
}

void GiveValues(const ConstructedModel& made, at::Device device, bool sharded) {
  if (made.init == nullptr) {
    made.model->to(device);
    return;
  }
  sharded ? made.init->FillBuffers() : made.init->FillAll();
  MoveFilled(*made.model, device);
}

}  // namespace composer

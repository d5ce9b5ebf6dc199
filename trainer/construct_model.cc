// SPDX-License-Identifier: Apache-2.0
#include "trainer/construct_model.h"

#include <c10/util/Exception.h>

#include <string>

#include "trainer/core/random.h"

namespace composer {
namespace {

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

}  // namespace composer

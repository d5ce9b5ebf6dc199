// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/activations/forward_conditions.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

#include <mutex>

namespace composer {

ForwardConditions::ForwardConditions(at::Device device)
    : device_(device), autocast_cache_(at::autocast::is_autocast_cache_enabled()) {
  std::vector<at::Device> devices = {at::kCPU};
  if (!device.is_cpu()) devices.push_back(device);
  for (const at::Device& each : devices) {
    at::Generator generator = at::globalContext().defaultGenerator(each);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    random_.emplace_back(generator, generator.get_state());
    autocast_.push_back(
        {each.type(), at::autocast::is_autocast_enabled(each.type()), at::autocast::get_autocast_dtype(each.type())});
  }
}

void ForwardConditions::Apply() const {
  for (auto [generator, state] : random_) {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
  for (const Autocast& each : autocast_) {
    at::autocast::set_autocast_enabled(each.device, each.enabled);
    at::autocast::set_autocast_dtype(each.device, each.dtype);
  }
  at::autocast::set_autocast_cache_enabled(autocast_cache_);
}

ForwardConditionsScope::ForwardConditionsScope(const ForwardConditions& conditions) : before_(conditions.device_) {
  conditions.Apply();
  at::autocast::increment_nesting();
}

ForwardConditionsScope::~ForwardConditionsScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  before_.Apply();
}

}  // namespace composer

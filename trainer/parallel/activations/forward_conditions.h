// ForwardConditions are what a forward depends on besides its inputs and parameters: the state of random generators and
// autocast. They are recorded so that the same forward can be run again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

namespace composer {

// These are the conditions at construction on this thread, of the CPU and of `device` if it is another. Does not wait
// for a GPU.
class ForwardConditions {
 public:
  explicit ForwardConditions(at::Device device);

 private:
  friend class ForwardConditionsScope;
  void Apply() const;

  struct Autocast {
    at::DeviceType device;
    bool enabled;
    at::ScalarType dtype;
  };
  at::Device device_;
  std::vector<std::pair<at::Generator, at::Tensor>> random_;  // generator, state
  std::vector<Autocast> autocast_;
  bool autocast_cache_;
};

// Applies the conditions for a scope, on any thread, and then restores the previous ones.
class ForwardConditionsScope {
 public:
  explicit ForwardConditionsScope(const ForwardConditions& conditions);
  ~ForwardConditionsScope();
  ForwardConditionsScope(const ForwardConditionsScope&) = delete;
  ForwardConditionsScope& operator=(const ForwardConditionsScope&) = delete;

 private:
  ForwardConditions before_;
};

}  // namespace composer

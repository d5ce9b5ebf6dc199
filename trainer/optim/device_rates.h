// An optimizer whose update can be captured in a graph (step/device_graph.h): it decides on the device whether there is
// one (Optimizer::StepUnless), and reads there the learning rates, which schedules change. All other hyperparameters
// are part of the graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace composer {

// Implemented by optimizers.
class DeviceRates {
 public:
  virtual ~DeviceRates() = default;
  // Returns whether this optimizer's settings allow it.
  virtual bool can_use_device_rates() const = 0;
  // From here on updates take each group's lr as it was at the last WriteRates, rounded to float32 (torch's
  // `capturable` rounds so, too). The parameters must be on a GPU, or on a CPU in tests.
  virtual void UseDeviceRates() = 0;
  // Queues the write, and does not wait.
  virtual void WriteRates() = 0;
};

}  // namespace composer

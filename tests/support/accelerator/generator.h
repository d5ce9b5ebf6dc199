// A device's random numbers: a CPU generator that says it is the device's, so that a run on the mock draws what a run
// on the CPU draws from the same seed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include "tests/support/accelerator/machine.h"

namespace composer::mock {

class MockGenerator final : public c10::GeneratorImpl {
 public:
  explicit MockGenerator(c10::DeviceIndex device)
      : MockGenerator(device, c10::make_intrusive<at::CPUGeneratorImpl>(c10::default_rng_seed_val)) {}
  // While the current stream is captured, as on CUDA, nothing may be set or asked, but the same seed, which does
  // nothing.
  void set_current_seed(uint64_t seed) override {
    if (seed == inner_->current_seed() && IsCapturing()) return;
    RefuseInCapture();
    inner_->set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override { RefuseInCapture(), inner_->set_offset(offset); }
  uint64_t get_offset() const override { return RefuseInCapture(), inner_->get_offset(); }
  uint64_t current_seed() const override { return RefuseInCapture(), inner_->current_seed(); }
  uint64_t seed() override { return RefuseInCapture(), inner_->seed(); }
  void set_state(const c10::TensorImpl& state) override { RefuseInCapture(), inner_->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner_->get_state(); }
  // What CPU kernels draw from.
  at::Generator inner() const { return at::Generator(inner_); }

 private:
  MockGenerator(c10::DeviceIndex device, c10::intrusive_ptr<c10::GeneratorImpl> inner)
      : GeneratorImpl(c10::Device(c10::kCUDA, device), c10::DispatchKeySet(c10::DispatchKey::CUDA)),
        inner_(std::move(inner)) {}
  MockGenerator* clone_impl() const override { return new MockGenerator(device().index(), inner_->clone()); }

  static bool IsCapturing() {
    const auto lock = Machine::Get().Hold();
    const Tape* const tape = Machine::Get().TapeOf(CurrentDevice());
    return tape != nullptr && tape->Takes(CurrentStream());
  }
  static void RefuseInCapture() {
    if (IsCapturing()) Machine::Get().TapeOf(CurrentDevice())->Refuse("a call of the generator of random numbers");
  }

  c10::intrusive_ptr<c10::GeneratorImpl> inner_;  // a CPUGeneratorImpl
};

// Index -1 is the current device's.
const at::Generator& DefaultGenerator(c10::DeviceIndex device);
// Of a generator given to an operator (undefined: the current device's default).
at::Generator InnerGenerator(const std::optional<at::Generator>& generator);

}  // namespace composer::mock

// A device's random numbers: a CPU generator that says it is the device's, so that a run on the mock draws what a run
// on the CPU draws from the same seed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

namespace composer::mock {

class MockGenerator final : public c10::GeneratorImpl {
 public:
  explicit MockGenerator(c10::DeviceIndex device)
      : MockGenerator(device, c10::make_intrusive<at::CPUGeneratorImpl>(c10::default_rng_seed_val)) {}
  void set_current_seed(uint64_t seed) override { inner_->set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inner_->set_offset(offset); }
  uint64_t get_offset() const override { return inner_->get_offset(); }
  uint64_t current_seed() const override { return inner_->current_seed(); }
  uint64_t seed() override { return inner_->seed(); }
  void set_state(const c10::TensorImpl& state) override { inner_->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner_->get_state(); }
  // What CPU kernels draw from.
  at::Generator inner() const { return at::Generator(inner_); }

 private:
  MockGenerator(c10::DeviceIndex device, c10::intrusive_ptr<c10::GeneratorImpl> inner)
      : GeneratorImpl(c10::Device(c10::kCUDA, device), c10::DispatchKeySet(c10::DispatchKey::CUDA)),
        inner_(std::move(inner)) {}
  MockGenerator* clone_impl() const override { return new MockGenerator(device().index(), inner_->clone()); }

  c10::intrusive_ptr<c10::GeneratorImpl> inner_;  // a CPUGeneratorImpl
};

// Index -1 is the current device's.
const at::Generator& DefaultGenerator(c10::DeviceIndex device);
// Of a generator given to an operator (undefined: the current device's default).
at::Generator InnerGenerator(const std::optional<at::Generator>& generator);

}  // namespace composer::mock

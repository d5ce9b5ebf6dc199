// A model that is built without memory for its parameters, and given their values later: each parameter by itself, on
// whichever rank needs it, always the same.
//
// The model's constructor says how parameters are initialised, as always: what it does to them is recorded
// (deferred_ops.h) and done when the values are asked for. Random numbers come from a generator for each operation,
// seeded with (seed, name of the parameter, the how-manieth draw), so values depend neither on the order in which they are
// made, nor on the number of ranks, nor on other parameters.
//
//   DeferredInit init(seed);
//   init.Build([&]() -> torch::nn::Module& { model = MakeGpt(…); return *model; });
//   at::Tensor whole = init.Values(param);   // on the CPU; param stays as it is
//   init.FillAll();                          // or: all of them, in place
//
// What a constructor must not do (it throws, and the model can only be built with memory): touch elements through
// data_ptr or an accessor, use a generator of its own, decide by random values.
// Composer's own way, param_init_fn and meta modules: mosaicml composer/distributed/mosaic_parallelism.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/init/first_values.h"
#include "trainer/init/op_recording.h"

namespace composer {

// Threads: Build on one; then those of the const methods, any number at once.
class DeferredInit final : public FirstValues {
 public:
  explicit DeferredInit(uint64_t seed) : seed_(seed) {}
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

  // Once. Throws what `build` throws, and c10::Error for what cannot be deferred. What is neither parameter nor buffer of
  // the module (tensors in members of the user's) has its values afterwards.
  void Build(const std::function<torch::nn::Module&()>& build);

  bool IsDeferred(const at::Tensor& tensor) const override { return tensor.is_meta() && recording_.Knows(tensor); }
  at::Tensor Values(const at::Tensor& tensor) const override;
  int64_t BytesFor(const at::Tensor& tensor) const override;
  // Give values, in place: to the module's buffers; to all its parameters and buffers. Ones that share memory do so then.
  void FillBuffers() const { Fill(buffers_); }
  void FillAll() const;

  uint64_t Fingerprint() const override;

 private:
  using Tensors = std::vector<std::pair<std::string, at::Tensor>>;
  void Name(const std::string& name, const at::Tensor& tensor);
  OpRecording::RealStorages Run(const at::Tensor& tensor) const;
  void Fill(const Tensors& tensors) const;

  uint64_t seed_;
  OpRecording recording_;
  Tensors params_, buffers_;
  absl::flat_hash_map<size_t, uint64_t> seeds_;  // of random operations
};

}  // namespace composer

// DeferredInit builds a model without memory for its parameters and gives them their values later: each parameter by
// itself, on whichever rank needs it, always the same.
//
// The model's constructor initialises parameters as always; what it does to them is recorded (deferred_ops.h) and done
// when the values are requested. Random numbers come from a generator for each operation, seeded with (seed, name of
// the parameter, index of the draw), so values depend neither on the order in which they are made, nor on the number of
// ranks, nor on other parameters.
//
//   DeferredInit init(seed);
//   init.Build([&]() -> torch::nn::Module& { model = MakeGpt(…); return *model; });
//   at::Tensor whole = init.Values(param);   // on the CPU; param stays as it is
//   init.FillAll();                          // or: all of them, in place
//
// A constructor must not touch elements through data_ptr or an accessor, use a generator of its own, or decide by
// random values; it throws then, and the model can only be built with memory. Composer's own way is param_init_fn and
// meta modules: mosaicml composer/distributed/mosaic_parallelism.py.
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

// Threads: Build is called on one thread; afterwards the const methods are thread-safe.
class DeferredInit final : public FirstValues {
 public:
  explicit DeferredInit(uint64_t seed) : seed_(seed) {}
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

  // Must be called once. Throws what `build` throws, and c10::Error for what cannot be deferred. Tensors that are
  // neither parameters nor buffers of the module (members of the user's) have their values afterwards.
  void Build(const std::function<torch::nn::Module&()>& build);

  bool IsDeferred(const at::Tensor& tensor) const override { return tensor.is_meta() && recording_.Knows(tensor); }
  at::Tensor Values(const at::Tensor& tensor) const override;
  int64_t BytesFor(const at::Tensor& tensor) const override;
  // These give values in place to the module's buffers, or to all its parameters and buffers. Tensors that share memory
  // still do so afterwards.
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

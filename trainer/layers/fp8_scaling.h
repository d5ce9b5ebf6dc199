// Fp8Scaling says by which amax each tensor of a model's fp8 layers is scaled (fp8_recipe.h), and keeps their
// histories.
//
// With delayed scaling each layer has three histories: of its input, its weight, and the gradient of its output. During
// a step the amaxes seen are recorded, each the largest of all microbatches; at its end Advance is given the largest of
// all ranks and moves the histories on. Which amax a step scales by is settled before it, so a forward that is repeated
// in backward rounds to the same bits. All of it stays on the device.
//
// Threads: the thread of the forward pass, and autograd's inside backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <utility>
#include <vector>

#include "trainer/layers/fp8_recipe.h"

namespace composer {

enum class Fp8Operand { kInput, kWeight, kGradient };
inline constexpr int64_t kFp8Operands = 3;

class Fp8Scaling final : public torch::CustomClassHolder {  // so that a graph can hold it
 public:
  explicit Fp8Scaling(Fp8Recipe recipe) : recipe_(std::move(recipe)) {}

  // Returns the number of the new layer.
  size_t AddLayer(std::string name);
  // Makes the histories, empty. Until then all scaling is current and nothing is recorded.
  void Start(at::Device device);

  // Returns the amax by which this step scales x, float32 [1], and records x's own with delayed scaling. A value of x
  // that is not finite makes it NaN.
  at::Tensor AmaxOf(size_t layer, Fp8Operand operand, const at::Tensor& x);
  // Ends a step. An amax that is not finite, or 0, is taken to be that of the step before.
  void Advance(const at::Tensor& amaxes_of_all_ranks);
  // This rank's amaxes of the step so far, float32 [layers x 3].
  const at::Tensor& recorded() const { return recorded_; }

  // The histories, float32 [layers x 3, amax_history_len], the newest first; 0 where there is none yet.
  const at::Tensor& history() const { return history_; }
  // Takes over other histories: of layers of these names the newest steps that both have; all else becomes empty.
  void SetHistory(const std::vector<std::string>& layers, const at::Tensor& history);
  const std::vector<std::string>& layers() const { return layers_; }

  const Fp8Recipe& recipe() const { return recipe_; }
  bool is_delayed() const { return recipe_.scaling == Fp8Scales::kDelayed; }
  // Whether layers compute in fp8 at all; a run may go on in another precision.
  bool is_on() const { return is_on_; }
  void SetOn(bool on) { is_on_ = on; }

 private:
  void UseHistory();

  Fp8Recipe recipe_;
  bool is_on_ = true;
  std::vector<std::string> layers_;
  at::Tensor recorded_, used_, history_;           // undefined before Start
  std::vector<at::Tensor> recorded_of_, used_of_;  // their elements, [1]
};

}  // namespace composer

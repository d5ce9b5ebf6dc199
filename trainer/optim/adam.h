// torch.optim's Adam and AdamW: adam_group.h's update with L2 decay in the gradient (Adam), and with decoupled decay
// that follows the learning rate (AdamW).
//
// Source: torch/optim/adam.py, adamw.py (2.11); Kingma & Ba 2015, arXiv:1412.6980; Loshchilov & Hutter 2019,
// arXiv:1711.05101. Not ported: maximize, capturable, differentiable.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/optimizer.h"
#include "trainer/optim/adam_group.h"
#include "trainer/optim/device_rates.h"
#include "trainer/step/finite_check.h"

namespace composer {

// The base of the whole family. Its members differ in name, defaults and decay.
class AdamFamily : public Optimizer, public DeviceRates {
 public:
  // Throws c10::Error when the options are invalid or a group does not have one dtype and device (ActiveParams).
  AdamFamily(std::vector<ParamGroup> groups, const AdamOptions& options, AdamDecay decay);
  ~AdamFamily() override;
  // With in_backward these update what backward has left: nothing, or from a gradient that is not finite on. They throw
  // c10::ValueError before BeginInBackward.
  void Step() final { Update({}); }
  void StepUnless(const at::Tensor& found_inf) final { Update(found_inf); }
  bool can_use_device_rates() const final { return !options_.bf16_state && !options_.in_backward; }
  void UseDeviceRates() final;
  void WriteRates() final;
  // With in_backward this hooks into the parameters, which must stay the same. A gradient that is not finite, and all
  // that come after it up to the next Step, are left as they are. A second gradient before that throws c10::ValueError.
  void BeginInBackward();
  // Returns AdamGroup::AppendState of each group in turn.
  NamedTensors state() final;
  const AdamOptions& options() const { return options_; }

 private:
  class Hook;
  void Update(const at::Tensor& found_inf);
  void OnGradient(const at::Tensor& param, size_t group, size_t parameter);

  AdamOptions options_;
  std::vector<std::unique_ptr<AdamGroup>> state_;
  bool in_backward_ = false;              // BeginInBackward was called
  FiniteCheck check_;                     // of the gradients since the last Step
  std::vector<std::vector<char>> taken_;  // whether a parameter was updated since then, by group
};

class AdamOptimizer final : public AdamFamily {
 public:
  AdamOptimizer(std::vector<ParamGroup> groups, const AdamOptions& options)
      : AdamFamily(std::move(groups), options, AdamDecay::kL2) {}
  std::string name() const override { return "Adam"; }
};

class AdamWOptimizer final : public AdamFamily {
 public:
  AdamWOptimizer(std::vector<ParamGroup> groups, const AdamOptions& options)
      : AdamFamily(std::move(groups), options, AdamDecay::kDecoupled) {}
  std::string name() const override { return "AdamW"; }
};

}  // namespace composer

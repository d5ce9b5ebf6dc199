// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/check_in_backward.h"

#include "absl/strings/str_cat.h"
#include "trainer/optim/adam.h"

namespace composer {
namespace {

absl::Status Refused(absl::string_view setting, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizers: in_backward: true does not go with ", setting, ": ", why));
}

// Those that see or change a step's gradients, or leave its update out.
bool UsesGradients(const Algorithm& algorithm) {
  const EventSet events = algorithm.events();
  return events.Has(Event::kAfterBackward) || events.Has(Event::kAfterTrainBatch) || algorithm.backwards_create_graph();
}

absl::Status Check(const State& state, bool alone) {
  if (!alone)
    return Refused("several ranks, sharding or determinism: elastic",
                   "gradients are summed before they are used; leave it out, or train on one rank");
  if (!state.identity.device.is_cpu())
    return Refused("device: gpu", "the host would wait for each gradient to know that it is finite");
  const StepSettings& settings = state.settings;
  if (settings.scaler) return Refused("precision: amp_fp16", "its scaler must see all gradients first; use amp_bf16");
  if (settings.auto_microbatch)
    return Refused("device_train_microbatch_size: auto", "a step that does not fit could not be made again");
  if (settings.nan.on_nan() == OnNan::kSkip)
    return Refused("on_nan: skip", "a step is known to be finite only when it is done; use stop or continue");
  for (const auto& algorithm : state.algorithms) {
    if (UsesGradients(*algorithm))
      return Refused(absl::StrCat("the algorithm ", algorithm->name()), "it uses the gradients of the whole step");
  }
  for (const auto& callback : state.callbacks) {
    if (callback->name() == "OptimizerMonitor")
      return Refused("optimizer_monitor", "it reads gradients, which are freed by then");
  }
  return absl::OkStatus();
}

}  // namespace

bool UpdatesInBackward(const State& state) {
  const auto* const adam = dynamic_cast<const AdamFamily*>(state.optimizer.get());
  return adam != nullptr && adam->options().in_backward;
}

absl::Status BeginInBackward(State& state, bool alone) {
  if (!UpdatesInBackward(state)) return absl::OkStatus();
  if (absl::Status status = Check(state, alone); !status.ok()) return status;
  static_cast<AdamFamily&>(*state.optimizer).BeginInBackward();
  return absl::OkStatus();
}

}  // namespace composer

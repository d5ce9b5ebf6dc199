// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/grad_scaler.h"

#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "base/format/json.h"

namespace composer {

at::Tensor GradScaler::StartUnscale(std::vector<at::Tensor>& grads) {
  if (grads.empty()) return {};
  const torch::NoGradGuard no_grad;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(grads[0].device());
  at::Tensor found_inf = at::zeros({1}, options);
  const at::Tensor inverse = at::full({1}, 1.0 / scale_, options);
  at::_amp_foreach_non_finite_check_and_unscale_(grads, found_inf, inverse);
  return found_inf;
}

bool GradScaler::Unscale(std::vector<at::Tensor>& grads) {
  const at::Tensor found_inf = StartUnscale(grads);
  return !found_inf.defined() || found_inf.item<float>() == 0;
}

void GradScaler::Update(bool finite) {
  if (!finite) {
    scale_ *= options_.backoff;
    good_steps_ = 0;
    ++skipped_steps_;
  } else if (++good_steps_ == options_.growth_interval) {
    scale_ *= options_.growth;
    good_steps_ = 0;
  }
}

std::string GradScaler::SaveState() const {
  return nlohmann::json{{"scale", scale_}, {"good_steps", good_steps_}, {"skipped_steps", skipped_steps_}}.dump();
}

absl::Status GradScaler::LoadState(absl::string_view text) {
  const auto json = ParseJson(text);
  const auto count = [&](const char* key) { return json.contains(key) && json[key].is_number_integer(); };
  if (!json.is_object() || !json.contains("scale") || !json["scale"].is_number() || !(json["scale"] > 0) ||
      !count("good_steps") || !count("skipped_steps")) {
    return absl::DataLossError("the gradient scaler's state is not {scale, good_steps, skipped_steps}");
  }
  scale_ = json["scale"];
  good_steps_ = json["good_steps"];
  skipped_steps_ = json["skipped_steps"];
  return absl::OkStatus();
}

}  // namespace composer

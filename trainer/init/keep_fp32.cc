// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/keep_fp32.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "trainer/core/block.h"
#include "trainer/layers/no_autocast.h"

namespace composer {
namespace {

class InFp32 final : public BlockWrapper {
 public:
  // Only the main activation is cast: further inputs may be written to.
  at::Tensor Run(const std::vector<at::Tensor>& inputs, const Inner& inner) override {
    const NoAutocastScope off(inputs.at(0).device().type());
    const at::ScalarType type = inputs[0].scalar_type();
    if (!off.was_enabled() || (type != at::kBFloat16 && type != at::kHalf)) return inner(inputs);
    std::vector<at::Tensor> wide = inputs;
    wide[0] = inputs[0].to(at::kFloat);
    return inner(wide).to(type);
  }
};

}  // namespace

absl::Status KeepInFp32(torch::nn::Module& model, const LayerChoice& layers) {
  const absl::StatusOr<NamedModules> chosen = ChooseLayers(model, layers);
  if (!chosen.ok()) return absl::InvalidArgumentError(absl::StrCat("keep_in_fp32: ", chosen.status().message()));
  const auto wrapper = std::make_shared<InFp32>();
  for (const auto& [name, module] : *chosen) {
    if (const std::string why_not = WhyNotWrapped(*module); !why_not.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("keep_in_fp32: layer ", name, " (", module->name(), ") cannot be kept: ", why_not));
    }
    WrapLayer(*module, wrapper);
  }
  return absl::OkStatus();
}

}  // namespace composer

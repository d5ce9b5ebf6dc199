// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/qk_norm.h"

#include <ATen/ATen.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/model.h"

namespace composer {

at::Tensor NormalizeHeads(const at::Tensor& x, double eps) {
  const at::Tensor wide = x.to(at::kFloat);
  return (wide * at::rsqrt(wide.square().mean(-1, /*keepdim=*/true) + eps)).to(x.scalar_type());
}

at::Tensor QkNormAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const std::optional<at::Tensor>& mask, bool is_causal) {
  return core_->forward(NormalizeHeads(q, eps_), NormalizeHeads(k, eps_), v, mask, is_causal);
}

absl::Status QkNorm::ChangeModel(Model& model, const ModelContext& context) {
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (item.key() == "q_norm" || absl::EndsWith(item.key(), ".q_norm"))
      return absl::InvalidArgumentError(absl::StrCat("qk_norm: ", item.key(), " normalises queries already"));
  }
  ReplaceLayersOf(model, context, [&](const std::string&, const std::shared_ptr<torch::nn::Module>& module) {
    const bool is_core = dynamic_cast<AttentionCore*>(module.get()) != nullptr;
    return is_core ? std::make_shared<QkNormAttention>(module, eps_) : std::shared_ptr<torch::nn::Module>();
  });
  if (PoliciesFor(*this, context).empty() && FindLayers(model, LayersOfType<QkNormAttention>()).empty())
    return absl::InvalidArgumentError(
        absl::StrCat("qk_norm: it needs attention (AttentionCore), and ", ClassNameOf(model), " has none"));
  return absl::OkStatus();
}

std::vector<std::pair<std::string, size_t>> QkNorm::LayersOf(const Model& model) const {
  return {{"qk_norm/num_layers", FindLayers(model, LayersOfType<QkNormAttention>()).size()}};
}

}  // namespace composer

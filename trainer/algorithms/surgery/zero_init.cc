// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/zero_init.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/core/model.h"
#include "trainer/layers/layer_selector.h"

namespace composer {

absl::Status ZeroInit::ChangeModel(Model& model, const ModelContext& /*context*/) {
  const torch::NoGradGuard no_grad;
  const bool is_usual = options_.layers == ZeroInitOptions().layers;
  size_t all = 0;
  for (const std::string& pattern : options_.layers) {
    size_t found = 0;
    for (const auto& [name, module] : FindLayers(model, LayersNamed(pattern))) {
      for (at::Tensor& param : module->parameters(/*recurse=*/false)) {
        param.zero_();
        ++found;
      }
    }
    if (found == 0 && !is_usual)
      return absl::InvalidArgumentError(absl::StrCat("zero_init: layers: `", pattern, "` matches no layer of ",
                                                     ClassNameOf(model), " with parameters"));
    all += found;
  }
  if (all > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("zero_init: layers: [", absl::StrJoin(options_.layers, ", "),
                                                 "] match no layer of ", ClassNameOf(model), " with parameters"));
}

}  // namespace composer

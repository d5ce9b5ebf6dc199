// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/surgery.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

std::vector<LayerPolicy> PoliciesFor(const Algorithm& algorithm, const ModelContext& context) {
  std::vector<LayerPolicy> policies;
  for (const LayerPolicy& policy : context.policies) {
    if (policy.algorithm == algorithm.origin().key || policy.algorithm == algorithm.name()) policies.push_back(policy);
  }
  return policies;
}

std::string ClassNameOf(const Model& model) {
  const std::vector<std::string> types = TypesOf(model);
  return types.empty() ? model.name() : types[0];
}

void Surgery::ReplaceLayersOf(Model& model, const ModelContext& context, const ReplacementPolicy& own) {
  policies_ = PoliciesFor(*this, context);
  ReplaceLayers(model, policies_, own);
}

absl::Status Surgery::Apply(Event event, State& state, Logger& logger) {
  Hyperparameters numbers;
  size_t all = 0;
  std::vector<std::pair<std::string, size_t>> counts = LayersOf(*state.model);
  for (const LayerPolicy& policy : policies_) {
    counts.emplace_back(absl::StrCat(policy.algorithm, "/num_", policy.name, "_layers"),
                        FindLayers(*state.model, policy.made).size());
  }
  for (const auto& [kind, count] : counts) {
    numbers.emplace_back(kind, absl::StrCat(count));
    all += count;
  }
  logger.LogHyperparameters(numbers);
  if (all == 0 && state.identity.rank == 0)
    LOG(WARNING) << name() << " has no effect: " << ClassNameOf(*state.model) << " has no " << wanted();
  return absl::OkStatus();
}

}  // namespace composer

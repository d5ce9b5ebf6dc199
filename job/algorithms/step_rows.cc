// SPDX-License-Identifier: Apache-2.0
#include "job/algorithms/algorithm_rows.h"
#include "job/plugin/job_time.h"
#include "trainer/algorithms/lawa.h"
#include "trainer/algorithms/optimisation/cautious_weight_decay.h"
#include "trainer/algorithms/optimisation/z_loss.h"

namespace composer {
namespace {

AlgorithmFactory ReadCautiousWeightDecay(ConfigMap /*config*/) {
  return [] { return std::make_unique<CautiousWeightDecay>(); };
}

AlgorithmFactory ReadLawa(ConfigMap config) {
  LawaOptions options;
  options.k = config.Int("k", options.k, {.min = 1, .max = 1000});
  options.interval = ReadTime(config, "interval", options.interval.ToString());
  options.lawa_start = ReadTime(config, "lawa_start", options.lawa_start.ToString());
  if (const absl::Status valid = Validate(options); !valid.ok()) config.Reject("", valid.message());
  return [=] { return std::make_unique<Lawa>(options); };
}

AlgorithmFactory ReadZLoss(ConfigMap config) {
  const double weight = config.Double("weight", 1e-4, {.min = 0, .max = 1e6});
  if (weight == 0) config.Reject("weight", "must be above 0");
  return [=] { return std::make_unique<ZLoss>(weight); };
}

}  // namespace

std::vector<AlgorithmRow> StepAlgorithmRows() {
  return {{"cautious_weight_decay", ReadCautiousWeightDecay}, {"lawa", ReadLawa}, {"z_loss", ReadZLoss}};
}

}  // namespace composer

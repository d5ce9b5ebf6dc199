// Do a job's model and its data fit together? Some samples through a model that is made for it, and thrown away.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/core/dataset.h"
#include "trainer/core/state.h"

namespace composer {

struct SampleCheck {
  // Parameters of the model, which is built without memory for them first.
  int64_t parameters = 0;
  // Why no sample was sent through it: it is too large for a trial on this machine. "": they were.
  std::string not_tried;
};

// At most kTriedSamples, spread over the data set, through forward and loss on the CPU, without gradients. Models
// with more than kLargestTrial bytes of parameters are only built. kInvalidArgument, which begins with the key
// ("model", "model.vocab_size"): what the model said of them.
inline constexpr int64_t kTriedSamples = 8;
inline constexpr int64_t kLargestTrial = int64_t{2} << 30;
absl::StatusOr<SampleCheck> CheckSamples(const ModelFactory& make_model, const Dataset& dataset, uint64_t seed);

}  // namespace composer

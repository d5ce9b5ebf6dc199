// Checks whether a job's model and its data fit together: sends some samples through a model that is made for the check
// and then discarded.
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
  // Number of parameters of the model, which is first built without memory for them.
  int64_t parameters = 0;
  // Why no sample was sent through the model: it is too large for a trial on this machine. "": samples were sent.
  std::string not_tried;
};

// Sends at most kTriedSamples samples, spread over the data set, through forward and loss on the CPU, without
// gradients. Only builds models with more than kLargestTrial bytes of parameters. kInvalidArgument, beginning with the
// key ("model", "model.vocab_size"): what the model said about the samples.
inline constexpr int64_t kTriedSamples = 8;
inline constexpr int64_t kLargestTrial = int64_t{2} << 30;
absl::StatusOr<SampleCheck> CheckSamples(const ModelFactory& make_model, const Dataset& dataset, uint64_t seed);

}  // namespace composer

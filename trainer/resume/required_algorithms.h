// Checkpoints of a model that algorithms changed (Algorithm::required_on_load) can only be loaded into a model with the
// same changes. So each names those algorithms, and a run that begins with one has those added which it lacks itself,
// before its model is made. Source: mosaicml composer/utils/checkpoint.py, load_checkpoint().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "storage/object_store.h"
#include "trainer/core/callback.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// The list has this key in a checkpoint's small state. Checkpoints without such algorithms lack it.
inline constexpr char kRequiredAlgorithmsKey[] = "required_algorithms";

// Returns the list of those that are required on load, [{"name": "BlurPool", "key": "blurpool", "arguments": {…},
// "plugin": ""}, …]; "" if there are none.
std::string RequiredAlgorithms(const std::vector<std::unique_ptr<Algorithm>>& algorithms);

// The requirements of one checkpoint.
struct CheckpointRequirements {
  std::string location;  // of the checkpoint
  std::string json;      // as above
};

// Reads them on rank 0, for all ranks.
absl::StatusOr<CheckpointRequirements> ReadRequirements(ObjectStore& store, const std::string& checkpoint,
                                                        RankExchange& exchange);

// Puts those that the algorithms lack before them, in their order, made by options.make_algorithm; returns their names.
// Leaves out those that match an fnmatch pattern of `exclude`. Returns kInvalidArgument naming the algorithm and its
// plugin if one cannot be made, kDataLoss for another kind of JSON.
absl::StatusOr<std::vector<std::string>> AddRequired(const CheckpointRequirements& required,
                                                     const std::vector<std::string>& exclude, TrainerOptions& options);

}  // namespace composer

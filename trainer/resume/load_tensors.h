// This loads the tensors of a checkpoint into those of a run, including what algorithms keep.
//
// Which of an algorithm's tensors a run has depends on what the checkpoint says of it (EMA has none before it begins),
// so that is decided when the checkpoint's manifest is known:
//
//   in the checkpoint   in the run   what happens
//   yes                 yes          it is loaded
//   no                  yes          it begins anew, from the weights that are loaded
//   yes                 no           ignored, with a warning; `model/…` is loaded as it is (with EMA the averages)
//   yes                 yes, but excluded, ignored or load_weights_only: as the two above, without the warning
//
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/exchange/byte_exchange.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/load/reader.h"
#include "trainer/core/state.h"

namespace composer {

// Says what is not to be loaded of algorithms, besides the patterns of a LoadSelection.
struct AlgorithmSelection {
  std::vector<std::string> exclude;  // fnmatch patterns of names
  bool weights_only = false;
};

struct AlgorithmLoadPlan {
  std::vector<std::string> states;  // by algorithm of the run, for Algorithm::PrepareLoad
  std::vector<std::string> ignore;  // patterns of tensors to be ignored
  std::vector<std::string> warnings;
};
// The function is pure. `keys` are AlgorithmKeys of the run; `ignore` has the selection's patterns.
AlgorithmLoadPlan PlanAlgorithmLoad(const std::vector<std::string>& keys, const Manifest& manifest,
                                    const IgnoredKeys& ignore, const AlgorithmSelection& wanted);

// Calls LoadCheckpoint into the live tensors of state and returns the small state; the caller must call
// RestoreSmallState. Algorithms are prepared by the plan, even if the load then fails. `inspect` sees the manifest
// first and may refuse it; it may be null.
absl::StatusOr<StateDict> LoadTensors(ObjectStore& store, const std::string& checkpoint, const LoadSelection& selection,
                                      const AlgorithmSelection& wanted, ByteExchange* bytes, const State& state,
                                      const std::function<absl::Status(const Manifest&)>& inspect = nullptr);

}  // namespace composer

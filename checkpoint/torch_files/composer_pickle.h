// This reads what a checkpoint of the Python Composer (mosaicml 0.17 and later) has besides the model's weights: the
// optimizer's state by names of parameters, and the time. As data, like torch_pickle.h. No torch.
// Source: mosaicml composer/core/state.py, State.state_dict(); composer/core/time.py, Timestamp.state_dict().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/torch_files/torch_pickle.h"

namespace composer {

struct ComposerSlot {
  std::string parameter;  // "module.fc.weight"
  std::string slot;       // "exp_avg", "step" …
  TorchTensor tensor;     // its name is "optimizer/{parameter}/{slot}"
};

struct ComposerState {
  std::string optimizer;                         // the class, "DecoupledAdamW"; "": none was saved
  std::vector<std::vector<std::string>> groups;  // names of parameters, in the optimizer's order
  std::vector<ComposerSlot> slots;
  std::string timestamp;              // as Timestamp::ToJson()
  std::string scaler;                 // as GradScaler::SaveState(); "": none was saved
  std::vector<std::string> left_out;  // for people: "the state of the algorithm EMA"
};

// Returns nullopt if the file is not Composer's: it has no `state/timestamp`. Returns kInvalidArgument for what is not
// supported, by name (several optimizers, parameters without names, a state that is not a tensor); kDataLoss if
// damaged. Fuzzed: tests/fuzz/torch_pickle_fuzz.cc.
absl::StatusOr<std::optional<ComposerState>> ReadComposerPickle(absl::string_view pickle);

}  // namespace composer

// DiffStates finds where two checkpoints differ: tensor by tensor (bit by bit) and small state value by value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "checkpoint/format/state_dict.h"

namespace composer {

// Returns whether a member of the small state, at any depth, says when and as which run it was saved, not what was
// computed: run_name, run_folder, save_folder, load_path, saved_at, world_size, hostname, configuration, and whatever
// ends in `_wct` (wall-clock time). Such members and all below them are not compared.
bool IsRunIdentity(absl::string_view member);

// Returns one line per difference, tensors first; empty if equal. For people, e.g. "tensor a.weight: 3 of 12 values
// differ, by 0.5 at most".
std::vector<std::string> DiffStates(const StateDict& a, const StateDict& b);

}  // namespace composer

// Where two checkpoints differ: tensor by tensor (bit by bit) and small state value by value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "checkpoint/format/state_dict.h"

namespace composer {

// Members of the small state, at any depth, that say when and as which run it was saved, not what was computed:
// run_name, run_folder, save_folder, load_path, saved_at, world_size, hostname, configuration, and whatever ends in `_wct` (wall-clock
// time). They and all below them are not compared.
bool IsRunIdentity(absl::string_view member);

// One line a difference, tensors first; empty: equal. For people, e.g. "tensor a.weight: 3 of 12 values differ, by 0.5
// at most".
std::vector<std::string> DiffStates(const StateDict& a, const StateDict& b);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/format/diff.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/tools/commands.h"

namespace composer {

absl::StatusOr<int> DiffTool(const std::vector<std::string>& args, const ToolContext& context) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments({}, args, 2));
  std::vector<StateDict> states;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(const CheckpointPlace place, FindOneCheckpoint(path, context));
    context.out << (states.empty() ? "first   " : "second  ") << place.store->Location(place.checkpoint) << "\n";
    ASSIGN_OR_RETURN(StateDict state, LoadNewStateDict(*place.store, place.checkpoint));
    states.push_back(std::move(state));
  }
  const std::vector<std::string> differences = DiffStates(states[0], states[1]);
  for (const std::string& line : differences) context.out << Printable(line) << "\n";
  if (!differences.empty()) return kToolDifferent;
  context.out << "equal, bit for bit: " << Counted(states[0].tensors.size(), "tensor") << " and the small state\n";
  return kToolDone;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_place.h"
#include "checkpoint/cleanup.h"
#include "checkpoint/diff.h"
#include "checkpoint/reader.h"
#include "checkpoint/verify.h"
#include "storage/local_store.h"

namespace composer {
namespace {

constexpr int kEqual = 0, kDifferent = 1, kUnreadable = 64, kDamaged = 70;

constexpr absl::string_view kUsage =
    "usage: composer checkpoint show PATH\n"
    "       composer checkpoint diff A B\n"
    "       composer checkpoint verify PATH\n"
    "A path is a checkpoint, its manifest.json, or a folder of checkpoints (its newest valid one; verify: all of "
    "them).\n";

// One checkpoint, where the path was that of a folder its newest valid one.
absl::StatusOr<CheckpointPlace> FindOne(const std::string& argument, std::ostream& err) {
  ASSIGN_OR_RETURN(CheckpointPlace place, FindCheckpointPlace(argument));
  if (!place.checkpoint.empty()) return place;
  ASSIGN_OR_RETURN(const CheckpointChoice choice, FindNewestValid(*place.store));
  for (const std::string& reason : choice.refused) err << "refused: " << reason << "\n";
  if (choice.checkpoint.empty())
    return absl::NotFoundError(absl::StrCat("no valid checkpoint in ", place.store->root()));
  place.checkpoint = choice.checkpoint;
  return place;
}

std::string HumanBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

void PrintManifest(const std::string& location, const Manifest& manifest, std::ostream& out) {
  out << "checkpoint  " << location << "\nrun         " << manifest.run_name << "\nsaved at    " << manifest.saved_at
      << "\nstep        epoch " << manifest.step.epoch << ", batch " << manifest.step.batch << ", " << manifest.samples
      << " samples\nworld size  " << manifest.world_size << "\nsize        " << HumanBytes(manifest.TensorBytesTotal())
      << " in " << manifest.tensors.size() << " tensors, " << manifest.files.size() << " files\n\ntensors\n";
  size_t width = 0;
  for (const TensorEntry& tensor : manifest.tensors) width = std::max(width, tensor.name.size());
  for (const TensorEntry& tensor : manifest.tensors) {
    int64_t bytes = 0;
    for (const Box& box : tensor.boxes) bytes += box.end - box.begin;
    out << absl::StrFormat("  %-*s  %-4s  %9s  [%s]\n", static_cast<int>(width), tensor.name, tensor.dtype,
                           HumanBytes(bytes), absl::StrJoin(tensor.shape, ", "));
  }
  out << "\nsmall state\n";
  constexpr size_t kShown = 200;
  for (const auto& [key, text] : manifest.small) {
    out << "  " << key << " = " << text.substr(0, kShown);
    if (text.size() > kShown) out << "… (" << text.size() << " bytes)";
    out << "\n";
  }
}

absl::StatusOr<int> Show(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindOne(args[1], err));
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(*place.store, place.checkpoint));
  PrintManifest(place.store->Location(place.checkpoint), manifest, out);
  return kEqual;
}

absl::StatusOr<int> Diff(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  std::vector<StateDict> states;
  for (const size_t i : {size_t{1}, size_t{2}}) {
    ASSIGN_OR_RETURN(const CheckpointPlace place, FindOne(args[i], err));
    out << (i == 1 ? "first   " : "second  ") << place.store->Location(place.checkpoint) << "\n";
    ASSIGN_OR_RETURN(StateDict state, LoadNewStateDict(*place.store, place.checkpoint));
    states.push_back(std::move(state));
  }
  const std::vector<std::string> differences = DiffStates(states[0], states[1]);
  for (const std::string& line : differences) out << line << "\n";
  if (differences.empty())
    out << "equal, bit for bit: " << states[0].tensors.size() << " tensors and the small state\n";
  return differences.empty() ? kEqual : kDifferent;
}

absl::StatusOr<int> Verify(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindCheckpointPlace(args[1]));
  std::vector<std::string> names = {place.checkpoint};
  if (place.checkpoint.empty()) {
    ASSIGN_OR_RETURN(const std::vector<CheckpointName> committed, CommittedCheckpoints(*place.store));
    if (committed.empty()) return absl::NotFoundError(absl::StrCat("no checkpoints in ", place.store->root()));
    names.clear();
    for (const CheckpointName& name : committed) names.push_back(name.ToString());
  }
  bool all_valid = true;
  for (const std::string& name : names) {
    const VerifyResult verdict = VerifyCheckpoint(*place.store, name);
    all_valid = all_valid && verdict.problems.empty();
    for (const absl::Status& problem : verdict.problems) err << name << ": " << problem.message() << "\n";
    out << place.store->Location(name) << (verdict.problems.empty() ? "  valid  " : "  DAMAGED  ")
        << HumanBytes(verdict.manifest.TensorBytesTotal()) << " in " << verdict.manifest.tensors.size() << " tensors\n";
  }
  return all_valid ? kEqual : kDamaged;
}

}  // namespace

int RunCheckpointTool(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  struct Command {
    absl::string_view name;
    size_t arguments;
    absl::StatusOr<int> (*run)(const std::vector<std::string>&, std::ostream&, std::ostream&);
  };
  constexpr Command kCommands[] = {{"show", 2, Show}, {"diff", 3, Diff}, {"verify", 2, Verify}};
  if (args.empty()) {
    err << kUsage;
    return kUnreadable;
  }
  for (const Command& command : kCommands) {
    if (command.name != args[0]) continue;
    if (args.size() != command.arguments) break;
    const absl::StatusOr<int> code = command.run(args, out, err);
    if (code.ok()) return *code;
    err << "composer checkpoint " << args[0] << ": " << code.status().message() << "\n";
    return kUnreadable;
  }
  err << "composer checkpoint: cannot do `" << absl::StrJoin(args, " ") << "`"
      << DidYouMean(args[0], {"show", "diff", "verify"}) << "\n"
      << kUsage;
  return kUnreadable;
}

}  // namespace composer

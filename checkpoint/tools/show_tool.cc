// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/tools/commands.h"

namespace composer {
namespace {

void PrintManifest(const std::string& location, const Manifest& manifest, std::ostream& out) {
  out << "checkpoint  " << location << "\nrun         " << Printable(manifest.run_name) << "\nsaved at    "
      << Printable(manifest.saved_at) << "\nstep        epoch " << manifest.step.epoch << ", batch "
      << manifest.step.batch << ", " << manifest.samples << " samples\nworld size  " << manifest.world_size
      << "\nsize        " << HumanBytes(manifest.TensorBytesTotal()) << " in "
      << Counted(manifest.tensors.size(), "tensor") << ", " << Counted(manifest.files.size(), "file")
      << "\n\ntensors\n";
  size_t width = 0;
  for (const TensorEntry& tensor : manifest.tensors) width = std::max(width, Printable(tensor.name).size());
  for (const TensorEntry& tensor : manifest.tensors) {
    int64_t bytes = 0;
    for (const Box& box : tensor.boxes) bytes += box.end - box.begin;
    out << absl::StrFormat("  %-*s  %-4s  %9s  [%s]\n", static_cast<int>(width), Printable(tensor.name), tensor.dtype,
                           HumanBytes(bytes), absl::StrJoin(tensor.shape, ", "));
  }
  out << "\nsmall state\n";
  constexpr size_t kShown = 200;
  for (const auto& [key, text] : manifest.small) {
    out << "  " << Printable(key) << " = " << Printable(text.substr(0, kShown));
    if (text.size() > kShown) out << " (" << text.size() << " bytes)";
    out << "\n";
  }
}

}  // namespace

absl::StatusOr<int> ShowTool(const std::vector<std::string>& args, const ToolContext& context) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments({}, args, 1));
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindOneCheckpoint(paths[0], context));
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(*place.store, place.checkpoint));
  PrintManifest(place.store->Location(place.checkpoint), manifest, context.out);
  return kToolDone;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/memory_plan.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace composer {
namespace {

void Append(const char* name, int64_t bytes, std::string& text) {
  if (bytes > 0) absl::StrAppend(&text, " + ", name, " ", Megabytes(bytes));
}

std::string DryRunText(const PlannedMemory& memory, const PlannedStep& step) {
  std::string text = absl::StrFormat(
      "  activations: of %d microbatch%s of %d sample%s a step, %s activation_checkpointing", step.passes,
      step.passes == 1 ? "" : "es", step.rows, step.rows == 1 ? "" : "s", step.checkpoints ? "with" : "without");
  if (!step.by_allocation) absl::StrAppend(&text, ", about: they do not grow evenly with the samples");
  if (step.peak_otherwise == 0) return absl::StrCat(text, "\n");
  const int64_t more = step.peak_otherwise - step.peak;
  absl::StrAppend(&text, "; ", step.checkpoints ? "without" : "with", " it a rank would take ",
                  Megabytes(TotalBytes(memory, step) + more), ", ", Megabytes(std::abs(more)),
                  more < 0 ? " less" : " more", "\n");
  return text;
}

}  // namespace

int64_t ActivationBytes(const PlannedMemory& memory, const PlannedStep& step) {
  if (!step.has_dry_run()) return 0;
  const int64_t known = (memory.state_on_host ? 0 : memory.state()) + memory.buffers + step.batches;
  return std::max<int64_t>(0, step.peak - known);
}

int64_t TotalBytes(const PlannedMemory& memory, const PlannedStep& step) {
  if (!step.has_dry_run()) return memory.total();
  return memory.state_on_host ? step.peak + memory.state() : step.peak;
}

std::string Megabytes(int64_t bytes) { return absl::StrFormat("%.2f MB", static_cast<double>(bytes) / 1e6); }

std::string MemoryText(const PlannedMemory& memory, const PlannedStep& step) {
  std::string text = absl::StrCat("  memory of a rank: ", Megabytes(TotalBytes(memory, step)), " = parameters ",
                                  Megabytes(memory.parameters));
  Append("gradients", memory.gradients, text);
  Append("optimizer", memory.optimizer, text);
  Append("partial sums", memory.partial_sums, text);
  Append("buffers", memory.buffers, text);
  if (step.has_dry_run()) {
    Append("batches", step.batches, text);
    return absl::StrCat(text, " + activations ", Megabytes(ActivationBytes(memory, step)), "\n",
                        DryRunText(memory, step));
  }
  Append("one gradient", memory.one_gradient, text);
  absl::StrAppend(&text, "; activations come on top\n");
  if (!step.not_counted.empty()) absl::StrAppend(&text, "  activations: not counted, because ", step.not_counted, "\n");
  return text;
}

}  // namespace composer

// Writes an allocation history in the format of torch.cuda.memory._snapshot(): a Python pickle that
// https://pytorch.org/memory_viz and torch/cuda/_memory_viz.py show as a timeline of live blocks. CPU allocations
// appear as those of device 0; a block's stack consists of its operations and the phase, without files. Pure.
// Source: torch/cuda/memory.py, _memory_viz.py (2.11); the pickle format: Python's pickletools.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "trainer/memory/allocation_recorder.h"

namespace composer {

// Writes a pickle (protocol 2) value by value. It supports only the types that a snapshot consists of.
class PickleWriter {
 public:
  PickleWriter();
  void Int(int64_t value);
  void String(absl::string_view value);  // UTF-8
  // Values written in between become its elements.
  void BeginList();
  void EndList();
  void BeginDict();  // key, value, key, value, …
  void EndDict();
  void Entry(absl::string_view key, int64_t value);
  void Entry(absl::string_view key, absl::string_view value);
  // Returns the pickle. Exactly one value must have been written.
  std::string Finish() &&;

 private:
  void LittleEndian(uint64_t value, int size);
  std::string bytes_;
};

// Returns the traces of all devices in the history, with the blocks that were allocated in it and not freed as
// segments.
std::string MemorySnapshotPickle(const AllocationHistory& history);

}  // namespace composer

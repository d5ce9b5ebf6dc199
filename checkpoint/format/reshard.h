// This computes which bytes of a stored box go where in a box that a rank wants: pure arithmetic, for any boxes of any
// number of dimensions. A box has the values [offset, offset + shape) of a tensor; a stored one lies in C order in one
// piece, a wanted one in memory with any strides. No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace composer {

struct BoxExtent {
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;

  bool operator==(const BoxExtent&) const = default;
};

// Returns the number of values. The caller must have checked that it does not overflow.
int64_t Volume(absl::Span<const int64_t> shape);

// Same as BoxExtent, but not owned.
struct BoxView {
  absl::Span<const int64_t> offset;
  absl::Span<const int64_t> shape;
};

struct CopyLoop {
  int64_t count = 0;
  int64_t source_stride = 0;  // bytes
  int64_t target_stride = 0;

  bool operator==(const CopyLoop&) const = default;
};

// Everything that a stored and a wanted box have in common, as nested loops around a run of neighbouring bytes. Runs
// are as long as possible, and in order of the source.
struct BoxCopy {
  int64_t source_begin = 0;  // bytes from the start of the stored box
  int64_t target_begin = 0;  // bytes from the start of the wanted box
  int64_t run_bytes = 0;
  std::vector<CopyLoop> loops;  // outermost first; empty: one run

  bool operator==(const BoxCopy&) const = default;
};

// Returns nullopt if they have nothing in common. `target_strides` are those of the wanted box in memory, in bytes.
std::optional<BoxCopy> PlanBoxCopy(BoxView stored, BoxView wanted, absl::Span<const int64_t> target_strides,
                                   int64_t element_bytes);

// Calls run(source, target, bytes) for the parts of the copy's runs that lie in bytes [begin, end) of the stored box,
// in order. The cost is that of the calls, wherever the window lies. Stops and returns true when `run` returns true.
using RunVisitor = absl::FunctionRef<bool(int64_t source, int64_t target, int64_t bytes)>;
bool VisitRuns(const BoxCopy& copy, int64_t begin, int64_t end, RunVisitor run);

// Returns the values [begin, end) of a tensor in C order as boxes, in that order. Each box lies in one piece in the
// range: the i-th box's values follow those of the boxes before it. There are at most 2 * dimensions - 1 boxes (1 for a
// scalar), none when the range is empty. A rank that holds a range of a flattened tensor (FSDP's flat parameters) thus
// stores it without gathering it.
std::vector<BoxExtent> FlatRangeToBoxes(absl::Span<const int64_t> shape, int64_t begin, int64_t end);

}  // namespace composer

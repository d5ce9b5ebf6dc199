// Spans and operators of one thread are timed by two clocks (clock_gettime, and Kineto's by the processor's counter),
// which differ by some tens of nanoseconds: an operator may seem to end after the span that followed it began. A viewer
// requires that the events of one row nest, so each operator is cut where it protrudes. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "trainer/profiler/timeline.h"

namespace composer {

// Each host operator that partly overlaps a span of its thread keeps the longer of its two sides. Operators that
// contain a whole span or lie in one are unchanged, and so are kernels of a device.
void ClipToSpans(absl::Span<const SpanRecord> spans, std::vector<OpEvent>& ops);

}  // namespace composer

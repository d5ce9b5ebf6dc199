// Spans and operators of one thread are timed by two clocks (clock_gettime; Kineto's, by the processor's counter), which
// part by some tens of nanoseconds: an operator may seem to end after the span that followed it began. A viewer wants
// what is on one row to nest, so each operator is cut where it sticks out. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "trainer/profiler/timeline.h"

namespace composer {

// Each operator of the host that overlaps a span of its thread in part keeps the longer of its two sides. Those that
// hold a whole span, or lie in one, stay as they are; so do kernels of a device.
void ClipToSpans(absl::Span<const SpanRecord> spans, std::vector<OpEvent>& ops);

}  // namespace composer

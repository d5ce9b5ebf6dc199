// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/reshard.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace composer {
namespace {

// Encloses the copy in a dimension: it extends the run or the innermost loop (`loops` is innermost first here), or
// becomes a loop of its own.
void Enclose(BoxCopy* copy, const CopyLoop& loop) {
  if (loop.count == 1) return;
  if (copy->loops.empty() && loop.source_stride == copy->run_bytes && loop.target_stride == copy->run_bytes) {
    copy->run_bytes *= loop.count;
    return;
  }
  if (!copy->loops.empty()) {
    CopyLoop& inner = copy->loops.back();
    if (loop.source_stride == inner.source_stride * inner.count &&
        loop.target_stride == inner.target_stride * inner.count) {
      inner.count *= loop.count;
      return;
    }
  }
  copy->loops.push_back(loop);
}

// Visits the runs of loops[level…] from these positions on. Extent is the bytes from the first to the last of them in
// the source.
class Walk {
 public:
  Walk(const BoxCopy& copy, int64_t begin, int64_t end, RunVisitor run)
      : copy_(copy), begin_(begin), end_(end), run_(run) {}

  bool Visit(size_t level, int64_t source, int64_t target) const {
    if (level == copy_.loops.size()) {
      const int64_t from = std::max(source, begin_), to = std::min(source + copy_.run_bytes, end_);
      return from < to && run_(from, target + (from - source), to - from);
    }
    const CopyLoop& loop = copy_.loops[level];
    // This is the first turn that ends behind begin_.
    const int64_t behind = begin_ - source - Extent(level + 1);
    int64_t turn = behind < 0 ? 0 : behind / loop.source_stride + 1;
    for (; turn < loop.count && source + turn * loop.source_stride < end_; ++turn) {
      if (Visit(level + 1, source + turn * loop.source_stride, target + turn * loop.target_stride)) return true;
    }
    return false;
  }

 private:
  int64_t Extent(size_t level) const {
    int64_t extent = copy_.run_bytes;
    for (; level < copy_.loops.size(); ++level)
      extent += (copy_.loops[level].count - 1) * copy_.loops[level].source_stride;
    return extent;
  }

  const BoxCopy& copy_;
  const int64_t begin_, end_;
  const RunVisitor run_;
};

// Adds the range within the tensor's last dimensions shape[depth…], at `offset` in the dimensions before.
void AddBoxes(absl::Span<const int64_t> shape, size_t depth, std::vector<int64_t>& offset, int64_t begin, int64_t end,
              std::vector<BoxExtent>& boxes) {
  if (begin >= end) return;
  if (depth == shape.size()) {
    boxes.push_back({offset, std::vector<int64_t>(shape.size(), 1)});
    return;
  }
  const int64_t row = Volume(shape.subspan(depth + 1));
  const auto add_part = [&](int64_t index, int64_t from, int64_t to) {
    offset[depth] = index;
    AddBoxes(shape, depth + 1, offset, from, to, boxes);
    offset[depth] = 0;
  };
  int64_t first = begin / row;
  const int64_t last = end / row;
  if (first == last) return add_part(first, begin % row, end % row);
  if (begin % row != 0) add_part(first++, begin % row, row);
  if (first < last) {
    BoxExtent rows{offset, std::vector<int64_t>(shape.begin(), shape.end())};
    std::fill_n(rows.shape.begin(), depth, 1);
    rows.offset[depth] = first;
    rows.shape[depth] = last - first;
    boxes.push_back(std::move(rows));
  }
  if (end % row != 0) add_part(last, 0, end % row);
}

}  // namespace

int64_t Volume(absl::Span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::optional<BoxCopy> PlanBoxCopy(BoxView stored, BoxView wanted, absl::Span<const int64_t> target_strides,
                                   int64_t element_bytes) {
  BoxCopy copy;
  copy.run_bytes = element_bytes;
  int64_t source_stride = element_bytes;
  for (size_t d = stored.shape.size(); d-- > 0;) {
    const int64_t begin = std::max(stored.offset[d], wanted.offset[d]);
    const int64_t end = std::min(stored.offset[d] + stored.shape[d], wanted.offset[d] + wanted.shape[d]);
    if (begin >= end) return std::nullopt;
    copy.source_begin += (begin - stored.offset[d]) * source_stride;
    copy.target_begin += (begin - wanted.offset[d]) * target_strides[d];
    Enclose(&copy, {end - begin, source_stride, target_strides[d]});
    source_stride *= stored.shape[d];
  }
  std::reverse(copy.loops.begin(), copy.loops.end());
  return copy;
}

bool VisitRuns(const BoxCopy& copy, int64_t begin, int64_t end, RunVisitor run) {
  return Walk(copy, begin, end, run).Visit(0, copy.source_begin, copy.target_begin);
}

std::vector<BoxExtent> FlatRangeToBoxes(absl::Span<const int64_t> shape, int64_t begin, int64_t end) {
  std::vector<BoxExtent> boxes;
  std::vector<int64_t> offset(shape.size(), 0);
  AddBoxes(shape, 0, offset, begin, end, boxes);
  return boxes;
}

}  // namespace composer

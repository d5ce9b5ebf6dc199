// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace composer {
namespace {

using Numbers = std::vector<int64_t>;

std::optional<BoxCopy> Plan(const BoxExtent& stored, const BoxExtent& wanted, const Numbers& strides, int64_t bytes) {
  return PlanBoxCopy({stored.offset, stored.shape}, {wanted.offset, wanted.shape}, strides, bytes);
}

TEST(PlanBoxCopy, RunsAreAsLongAsTheyCanBe) {
  const struct {
    const char* what;
    BoxExtent stored, wanted;
    Numbers strides;
    BoxCopy copy;
  } kCases[] = {
      {"the same", {{0, 0}, {4, 3}}, {{0, 0}, {4, 3}}, {12, 4}, {0, 0, 48, {}}},
      {"rows of it", {{0, 0}, {4, 3}}, {{1, 0}, {2, 3}}, {12, 4}, {12, 0, 24, {}}},
      {"rows into it", {{1, 0}, {2, 3}}, {{0, 0}, {4, 3}}, {12, 4}, {0, 12, 24, {}}},
      {"columns of it", {{0, 0}, {4, 3}}, {{0, 1}, {4, 2}}, {8, 4}, {4, 0, 8, {{4, 12, 8}}}},
      {"a corner", {{2, 2}, {2, 2}}, {{0, 0}, {3, 3}}, {12, 4}, {0, 32, 4, {}}},
      {"transposed", {{0, 0}, {2, 3}}, {{0, 0}, {2, 3}}, {4, 8}, {0, 0, 4, {{2, 12, 4}, {3, 4, 8}}}},
      {"padded rows", {{0, 0}, {2, 3}}, {{0, 0}, {2, 3}}, {16, 4}, {0, 0, 12, {{2, 12, 16}}}},
      {"outer dimensions are one loop",
       {{0, 0, 0}, {2, 3, 4}},
       {{0, 0, 0}, {2, 3, 2}},
       {24, 8, 4},
       {0, 0, 8, {{6, 16, 8}}}},
      {"a scalar", {{}, {}}, {{}, {}}, {}, {0, 0, 4, {}}},
  };
  for (const auto& test : kCases) {
    const auto copy = Plan(test.stored, test.wanted, test.strides, 4);
    ASSERT_TRUE(copy.has_value()) << test.what;
    EXPECT_TRUE(*copy == test.copy) << test.what;
  }
}

TEST(PlanBoxCopy, NothingInCommon) {
  EXPECT_FALSE(Plan({{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}, {12, 4}, 4).has_value());
  EXPECT_FALSE(Plan({{0, 0}, {4, 1}}, {{0, 1}, {4, 1}}, {4, 4}, 4).has_value());
  EXPECT_FALSE(Plan({{0, 0}, {0, 3}}, {{0, 0}, {4, 3}}, {12, 4}, 4).has_value());
}

class RandomBoxes {
 public:
  explicit RandomBoxes(unsigned seed) : random_(seed) {}
  int64_t Number(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }
  Numbers Shape() {
    Numbers shape(static_cast<size_t>(Number(3)) + 1);
    for (int64_t& size : shape) size = 1 + Number(6);
    return shape;
  }
  BoxExtent BoxIn(const Numbers& shape) {
    BoxExtent box;
    for (const int64_t size : shape) {
      const int64_t begin = Number(size - 1);
      box.offset.push_back(begin);
      box.shape.push_back(1 + Number(size - begin - 1));
    }
    return box;
  }
  // Returns the byte strides of a box in memory, with the dimensions in any order and sometimes with gaps, and the
  // number of bytes that it spans.
  std::pair<Numbers, int64_t> Strides(const Numbers& shape, int64_t element_bytes) {
    std::vector<size_t> order(shape.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    if (Number(1) == 0) std::shuffle(order.begin(), order.end(), random_);
    Numbers strides(shape.size());
    int64_t span = element_bytes;
    for (size_t k = order.size(); k-- > 0;) {
      strides[order[k]] = span;
      span *= shape[order[k]] + (Number(3) == 0 ? 1 : 0);
    }
    return {strides, span};
  }

 private:
  std::mt19937 random_;
};

// Returns the position in the tensor of the index-th value of a box.
Numbers Place(const BoxExtent& box, int64_t index) {
  Numbers place(box.shape.size());
  for (size_t d = place.size(); d-- > 0; index /= box.shape[d]) place[d] = box.offset[d] + index % box.shape[d];
  return place;
}

bool Holds(const BoxExtent& box, const Numbers& place) {
  for (size_t d = 0; d < place.size(); ++d) {
    if (place[d] < box.offset[d] || place[d] >= box.offset[d] + box.shape[d]) return false;
  }
  return true;
}

// For any boxes, strides and windows, each common value is moved once, to its own place, and nothing else is moved.
// Copies are ordered by source.
TEST(PlanBoxCopy, MovesExactlyWhatIsInBoth) {
  constexpr int64_t kBytes = 2;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    RandomBoxes random(seed);
    const Numbers shape = random.Shape();
    const BoxExtent stored = random.BoxIn(shape), wanted = random.BoxIn(shape);
    const auto [strides, span] = random.Strides(wanted.shape, kBytes);
    std::vector<int64_t> expected(static_cast<size_t>(span), -1), found = expected;  // per target byte: source byte
    for (int64_t i = 0; i < Volume(stored.shape); ++i) {
      const Numbers place = Place(stored, i);
      if (!Holds(wanted, place)) continue;
      int64_t target = 0;
      for (size_t d = 0; d < place.size(); ++d) target += (place[d] - wanted.offset[d]) * strides[d];
      for (int64_t byte = 0; byte < kBytes; ++byte) expected[static_cast<size_t>(target + byte)] = i * kBytes + byte;
    }
    const auto copy = Plan(stored, wanted, strides, kBytes);
    const int64_t stored_bytes = Volume(stored.shape) * kBytes;
    const int64_t window = 1 + random.Number(stored_bytes);
    int64_t last = -1;
    for (int64_t begin = 0; copy && begin < stored_bytes; begin += window) {
      VisitRuns(*copy, begin, begin + window, [&](int64_t source, int64_t target, int64_t bytes) {
        EXPECT_TRUE(source > last && bytes > 0 && source >= begin && source + bytes <= begin + window) << seed;
        last = source + bytes - 1;
        for (int64_t byte = 0; byte < bytes; ++byte) {
          EXPECT_EQ(found.at(static_cast<size_t>(target + byte)), -1) << seed;
          found.at(static_cast<size_t>(target + byte)) = source + byte;
        }
        return false;
      });
    }
    ASSERT_EQ(found, expected) << seed;
  }
}

TEST(VisitRuns, EndsWhenToldAndCostsOnlyItsWindow) {
  const auto copy = Plan({{0, 0}, {int64_t{1} << 40, 4}}, {{0, 1}, {int64_t{1} << 40, 2}}, {8, 4}, 4);
  int calls = 0;
  const int64_t middle = (int64_t{1} << 39) * 16;
  EXPECT_FALSE(VisitRuns(*copy, middle, middle + 32, [&](int64_t, int64_t, int64_t) { return ++calls, false; }));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(VisitRuns(*copy, 0, INT64_MAX, [&](int64_t, int64_t, int64_t) { return ++calls, true; }));
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(VisitRuns(*copy, 0, 4, [](int64_t, int64_t, int64_t) { return true; }));
}

TEST(FlatRangeToBoxes, Cases) {
  using Boxes = std::vector<BoxExtent>;
  const struct {
    Numbers shape;
    int64_t begin, end;
    Boxes boxes;
  } kCases[] = {
      {{10}, 2, 7, {{{2}, {5}}}},
      {{4, 3}, 0, 12, {{{0, 0}, {4, 3}}}},
      {{4, 3}, 3, 9, {{{1, 0}, {2, 3}}}},
      {{4, 3}, 4, 5, {{{1, 1}, {1, 1}}}},
      {{4, 3}, 1, 11, {{{0, 1}, {1, 2}}, {{1, 0}, {2, 3}}, {{3, 0}, {1, 2}}}},
      {{2, 3, 4},
       1,
       23,
       {{{0, 0, 1}, {1, 1, 3}}, {{0, 1, 0}, {1, 2, 4}}, {{1, 0, 0}, {1, 2, 4}}, {{1, 2, 0}, {1, 1, 3}}}},
      {{}, 0, 1, {{{}, {}}}},
      {{4, 3}, 5, 5, {}},
      {{0, 3}, 0, 0, {}},
  };
  for (const auto& test : kCases) EXPECT_EQ(FlatRangeToBoxes(test.shape, test.begin, test.end), test.boxes);
}

TEST(FlatRangeToBoxes, TheirValuesAreTheRangeInOrder) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomBoxes random(seed);
    const Numbers shape = random.Shape();
    const BoxExtent all{Numbers(shape.size(), 0), shape};
    const int64_t begin = random.Number(Volume(shape)), end = begin + random.Number(Volume(shape) - begin);
    int64_t next = begin;
    const std::vector<BoxExtent> boxes = FlatRangeToBoxes(shape, begin, end);
    EXPECT_LE(boxes.size(), 2 * shape.size() - 1);
    for (const BoxExtent& box : boxes) {
      for (int64_t i = 0; i < Volume(box.shape); ++i) ASSERT_EQ(Place(box, i), Place(all, next++)) << seed;
    }
    EXPECT_EQ(next, end) << seed;
  }
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/retention.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

using Names = std::vector<CheckpointName>;

TEST(Retention, Table) {
  const struct {
    const char* what;
    std::vector<int64_t> batches;
    int64_t just_saved;
    int keep;
    std::vector<int64_t> deleted;
  } kCases[] = {
      {"all are kept", {10, 20, 30}, 30, -1, {}},
      {"two are kept", {10, 20, 30, 40}, 40, 2, {10, 20}},
      {"any order in, oldest first out", {30, 10, 40, 20}, 40, 2, {10, 20}},
      {"as many as there are", {10, 20}, 20, 2, {}},
      {"more than there are", {10, 20}, 20, 5, {}},
      {"only the newest", {10, 20, 30}, 30, 1, {10, 20}},
      {"0 counts as 1", {10, 20, 30}, 30, 0, {10, 20}},
      {"newer ones are neither counted nor deleted", {10, 20, 30, 40}, 20, 1, {10}},
      {"newer ones do not push out older valid ones", {10, 20, 30, 40}, 20, 2, {}},
      {"the first one", {10}, 10, 1, {}},
      {"just_saved stays though it is not in the list", {10, 20}, 30, 1, {10, 20}},
  };
  for (const auto& test : kCases) {
    Names committed, expected;
    for (const int64_t batch : test.batches) committed.push_back({0, batch});
    for (const int64_t batch : test.deleted) expected.push_back({0, batch});
    EXPECT_EQ(CheckpointsToDelete(committed, {0, test.just_saved}, test.keep), expected) << test.what;
  }
}

}  // namespace
}  // namespace composer

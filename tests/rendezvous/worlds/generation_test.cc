// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/generation.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(NextGeneration, CountsOrBeginsARangeOfItsOwn) {
  const Numbering first{.random = 8'123'456, .may_be_first = true}, later{.random = 8'123'456, .may_be_first = false};
  const struct {
    const char* name;
    uint64_t last;
    bool own;
    Numbering numbering;
    uint64_t next;
  } cases[] = {
      {"the first of the job", 0, false, first, 1},
      {"its next", 1, true, first, 2},
      {"the first of a process that may have had another before it", 0, false, later, 1'123'456},
      {"on from there", 1'123'456, true, later, 1'123'457},
      {"after a world of another process", 7, false, later, 1'123'456},
      {"also for a process that did not expect one", 7, false, first, 1'123'456},
      {"beyond all that is known", 1'999'999, false, later, 2'123'456},
  };
  for (const auto& c : cases) EXPECT_EQ(NextGeneration(c.last, c.own, c.numbering), c.next) << c.name;
}

}  // namespace
}  // namespace composer

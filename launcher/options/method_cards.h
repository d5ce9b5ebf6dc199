// The cards of docs/methods, one for each algorithm and for some optimizers and schedules, as they were when the
// program was built (cmake/MethodCards.cmake makes the definition).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace composer {

struct MethodCard {
  const char* name;  // as in YAML
  const char* text;  // Markdown: a heading, a line that sums it up, a list
};

// In alphabetical order.
const std::vector<MethodCard>& MethodCards();

}  // namespace composer

// Formats one line of progress as text. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

struct ProgressLine {
  std::string title;  // "train   Epoch 0"
  int64_t done = 0;
  int64_t total = 0;        // 0 means not known
  int64_t done_before = 0;  // the part of `done` that existed when `elapsed` began
  absl::Duration elapsed;
  absl::string_view unit = "ba";
  std::vector<std::pair<std::string, double>> metrics;  // ("loss", 0.412)
};

// Returns "train   Epoch 0:  45%|████▌     | 210/469 [00:12<00:15, 17.1ba/s, loss=0.412, acc=0.85]", at most `columns`
// wide. The bar takes up to 30 of the columns that the text leaves, and is dropped when fewer than 3 are left. Then
// metrics are dropped, the last one first, and the rest is truncated.
std::string RenderBar(const ProgressLine& line, int columns);
// Returns "train   Epoch 0: 210/469 (45%) [00:12<00:15, 17.1ba/s, loss=0.412, acc=0.85]", for logs.
std::string RenderPlain(const ProgressLine& line);

}  // namespace composer

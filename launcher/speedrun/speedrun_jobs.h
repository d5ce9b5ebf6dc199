// The jobs of `composer speedrun`: examples/speedrun, which are part of the program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/strings/string_view.h"

namespace composer {

extern const char kFashionPlainJob[];
extern const char kFashionRecipeJob[];
extern const char kGptPlainJob[];
extern const char kGptRecipeJob[];
extern const char kBertPlainJob[];
extern const char kBertRecipeJob[];

// What is to be reached.
struct SpeedrunTask {
  const char* name;
  const char* metric;
  bool less_is_better;
  const char* quality;  // the default, as text
  const char* plain;    // jobs
  const char* recipe;
};

}  // namespace composer

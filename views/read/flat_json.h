// Reads one flat JSON object, such as a line of metrics.jsonl, without building a tree: about 1 GB/s. Pure; the input
// is hostile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

struct JsonMember {
  absl::string_view key;    // between its quotes, escapes as written
  absl::string_view value;  // as written: a number, a text with its quotes, true, false or null

  // Returns NaN for null and for what is not a number.
  double number() const;
};

// Visits the members of one object. Nested objects and lists are errors.
class FlatJson {
 public:
  explicit FlatJson(absl::string_view line);
  // Returns false at the end, and at the first error.
  bool Next(JsonMember& member);
  // After Next returned false: whether the line was one valid object.
  bool valid() const { return done_; }

 private:
  void SkipSpace();
  bool Take(char expected);
  bool TakeText(absl::string_view& text);
  bool TakeValue(absl::string_view& value);

  const char* at_;
  const char* const end_;
  bool begun_ = false, done_ = false;
};

// Returns a key or text without JSON's escapes; "" when they are not valid.
std::string WithoutEscapes(absl::string_view escaped);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/value_text.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace composer {

std::string ValueText(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 && size < 1e16 && value == std::floor(value)) return absl::StrFormat("%.0f", value);  // bytes, tokens
  if (size != 0 && (size < 1e-3 || size >= 1e16)) return absl::StrFormat("%.4g", value);
  return absl::StrFormat("%.4f", value);
}

std::string SettingText(absl::string_view value) {
  double number = 0;
  const bool plain = absl::SimpleAtod(value, &number) || value == "true" || value == "false" || value == "null";
  return plain ? std::string(value) : absl::StrCat("\"", value, "\"");
}

}  // namespace composer

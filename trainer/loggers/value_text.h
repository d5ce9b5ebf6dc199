// Logged values as text for people. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// "0.4123"; four digits also where Composer's four decimals would show nothing: "1e-05"; whole numbers of a
// million and more without decimals. "nan", "inf", "-inf".
// Source: mosaicml composer/loggers/logger.py, format_log_data_value().
std::string ValueText(double value);
// A hyperparameter: numbers, true, false and null as they are, the rest in quotes.
std::string SettingText(absl::string_view value);

}  // namespace composer

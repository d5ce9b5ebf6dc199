// Formats logged values as text for people. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace composer {

// Returns "0.4123", or four digits where Composer's four decimals would show nothing: "1e-05". Whole numbers of a
// million and more have no decimals. Others are "nan", "inf", "-inf".
// Source: mosaicml composer/loggers/logger.py, format_log_data_value().
std::string ValueText(double value);
// Formats a hyperparameter: numbers, true, false and null as they are, everything else in quotes.
std::string SettingText(absl::string_view value);

}  // namespace composer

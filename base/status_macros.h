// RETURN_IF_ERROR(expr) and ASSIGN_OR_RETURN(lhs, expr) return expr's status from the function when it is not OK.
// Abseil 20220623 does not have them; remove these when a newer one is in use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace composer {

// Returns the same code with `context: ` before the message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace composer

#define RETURN_IF_ERROR(expr)                             \
  do {                                                    \
    if (::absl::Status _status = (expr); !_status.ok()) { \
      return _status;                                     \
    }                                                     \
  } while (false)

#define COMPOSER_CONCAT_INNER_(a, b) a##b
#define COMPOSER_CONCAT_(a, b) COMPOSER_CONCAT_INNER_(a, b)
#define ASSIGN_OR_RETURN(lhs, expr) COMPOSER_ASSIGN_OR_RETURN_(COMPOSER_CONCAT_(_statusor_, __LINE__), lhs, expr)
#define COMPOSER_ASSIGN_OR_RETURN_(var, lhs, expr) \
  auto var = (expr);                               \
  if (!var.ok()) return std::move(var).status();   \
  lhs = std::move(var).value()

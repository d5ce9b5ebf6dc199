// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/dtype.h"

namespace composer {
namespace {

struct DType {
  absl::string_view name;
  at::ScalarType type;
};
constexpr DType kDTypes[] = {
    {"BOOL", at::kBool},
    {"U8", at::kByte},
    {"I8", at::kChar},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E8M0", at::kFloat8_e8m0fnu},
    {"F8_E4M3FNUZ", at::kFloat8_e4m3fnuz},
    {"F8_E5M2FNUZ", at::kFloat8_e5m2fnuz},
    {"I16", at::kShort},
    {"U16", at::kUInt16},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I32", at::kInt},
    {"U32", at::kUInt32},
    {"F32", at::kFloat},
    {"C64", at::kComplexFloat},
    {"F64", at::kDouble},
    {"I64", at::kLong},
    {"U64", at::kUInt64},
};

}  // namespace

absl::string_view DTypeName(at::ScalarType type) {
  for (const DType& known : kDTypes) {
    if (known.type == type) return known.name;
  }
  return "";
}

std::optional<at::ScalarType> DTypeFromName(absl::string_view name) {
  for (const DType& known : kDTypes) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

}  // namespace composer

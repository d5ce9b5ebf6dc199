// SPDX-License-Identifier: Apache-2.0
#include "data/tools/json_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format/little_endian.h"

namespace composer {
namespace {

using Json = nlohmann::json;

absl::Status Misfit(const MdsEncoding& encoding, const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return absl::InvalidArgumentError(
      absl::StrCat("`", text.substr(0, 60), "` does not fit the encoding ", encoding.name));
}

template <typename T>
bool AppendInteger(const Json& value, std::string& out) {
  if (!value.is_number_integer() && !value.is_boolean()) return false;
  const int64_t number = value.is_boolean() ? value.get<bool>() : value.get<int64_t>();
  if (value.is_number_unsigned() && number < 0 && sizeof(T) < 8) return false;
  if constexpr (sizeof(T) < 8) {
    if (number < static_cast<int64_t>(std::numeric_limits<T>::min()) ||
        number > static_cast<int64_t>(std::numeric_limits<T>::max()))
      return false;
  }
  if (std::is_unsigned_v<T> && !value.is_number_unsigned() && number < 0) return false;
  AppendNumber(static_cast<T>(number), out);
  return true;
}

bool AppendAs(MdsNumber number, const Json& value, std::string& out) {
  switch (number) {
    case MdsNumber::kUint8:
      return AppendInteger<uint8_t>(value, out);
    case MdsNumber::kInt8:
      return AppendInteger<int8_t>(value, out);
    case MdsNumber::kUint16:
      return AppendInteger<uint16_t>(value, out);
    case MdsNumber::kInt16:
      return AppendInteger<int16_t>(value, out);
    case MdsNumber::kUint32:
      return AppendInteger<uint32_t>(value, out);
    case MdsNumber::kInt32:
      return AppendInteger<int32_t>(value, out);
    case MdsNumber::kUint64:
      return AppendInteger<uint64_t>(value, out);
    case MdsNumber::kInt64:
      return AppendInteger<int64_t>(value, out);
    case MdsNumber::kFloat32:
      if (value.is_number()) AppendNumber(value.get<float>(), out);
      return value.is_number();
    case MdsNumber::kFloat64:
      if (value.is_number()) AppendNumber(value.get<double>(), out);
      return value.is_number();
    case MdsNumber::kFloat16:
      break;
  }
  return false;
}

absl::StatusOr<std::string> EncodeArray(const MdsEncoding& encoding, const Json& list) {
  if (!list.is_array() || list.empty()) return Misfit(encoding, list);
  const bool whole = std::all_of(list.begin(), list.end(), [](const Json& item) { return item.is_number_integer(); });
  MdsArray array{encoding.number.value_or(whole ? MdsNumber::kInt64 : MdsNumber::kFloat32),
                 encoding.shape.value_or(std::vector<int64_t>{static_cast<int64_t>(list.size())}), ""};
  std::string values;
  for (const Json& item : list) {
    if (!AppendAs(array.number, item, values)) return Misfit(encoding, item);
  }
  array.values = values;
  return WriteArray(encoding, array);
}

}  // namespace

absl::StatusOr<std::string> EncodeJsonValue(const MdsEncoding& encoding, const Json& value) {
  std::string bytes;
  switch (encoding.kind) {
    case MdsKind::kBytes:
    case MdsKind::kText:
    case MdsKind::kPicture:
      if (!value.is_string()) return Misfit(encoding, value);
      return value.get<std::string>();
    case MdsKind::kNumberText:
      return value.is_string() ? value.get<std::string>() : value.dump();
    case MdsKind::kJson:
      return value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
    case MdsKind::kNumber:
      if (!AppendAs(*encoding.number, value, bytes)) return Misfit(encoding, value);
      return bytes;
    case MdsKind::kArray:
      return EncodeArray(encoding, value);
    case MdsKind::kPixels:
    case MdsKind::kPictureArray:
    case MdsKind::kList:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("JSON has no values for the encoding ", encoding.name));
}

std::string GuessEncoding(const Json& value) {
  if (value.is_string()) return "str";
  if (value.is_number_integer() || value.is_boolean()) return "int";
  if (value.is_number()) return "float64";
  const bool numbers = value.is_array() && !value.empty() &&
                       std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number(); });
  if (!numbers) return "json";
  const bool whole = std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_number_integer(); });
  return whole ? "ndarray:int64" : "ndarray:float32";
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"
#include "checkpoint/format/json_text.h"

namespace composer {
namespace {

using nlohmann::json;

constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr absl::string_view kMetadata = "__metadata__";
constexpr size_t kMaxDims = 64;

struct DTypeBits {
  absl::string_view name;
  int bits;
};
constexpr DTypeBits kDTypes[] = {
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

int BitsOf(absl::string_view dtype) {
  for (const DTypeBits& known : kDTypes) {
    if (known.name == dtype) return known.bits;
  }
  return 0;
}

absl::Status Broken(absl::string_view name, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("tensor \"", absl::CHexEscape(name.substr(0, 100)), "\": ", what));
}

// Returns a number of the header: an integer of at least 0 that fits int64.
std::optional<int64_t> Count(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(value.get<uint64_t>());
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name, const json& value, int64_t header_bytes) {
  if (!value.is_object()) return Broken(name, "its entry is not an object");
  const auto dtype = value.find("dtype"), shape = value.find("shape"), offsets = value.find("data_offsets");
  if (dtype == value.end() || shape == value.end() || offsets == value.end())
    return Broken(name, "dtype, shape or data_offsets is missing");
  if (!dtype->is_string() || !shape->is_array() || shape->size() > kMaxDims) return Broken(name, "bad dtype or shape");
  SafetensorsEntry entry{name, dtype->get<std::string>()};
  for (const json& size : *shape) {
    const auto count = Count(size);
    if (!count) return Broken(name, "bad size in its shape");
    entry.shape.push_back(*count);
  }
  const auto bytes = TensorBytes(entry.dtype, entry.shape);
  if (!bytes.ok()) return Broken(name, bytes.status().message());
  if (!offsets->is_array() || offsets->size() != 2) return Broken(name, "data_offsets must be two numbers");
  const auto begin = Count((*offsets)[0]), end = Count((*offsets)[1]);
  if (!begin || !end || *end < *begin || *end - *begin != *bytes)
    return Broken(name, "data_offsets do not fit its dtype and shape");
  if (__builtin_add_overflow(*begin, header_bytes, &entry.begin) ||
      __builtin_add_overflow(*end, header_bytes, &entry.end)) {
    return Broken(name, "data_offsets are too large");
  }
  return entry;
}

absl::Status CheckMetadata(const json& metadata) {
  if (!metadata.is_object()) return absl::DataLossError("__metadata__ is not an object");
  for (const json& value : metadata) {
    if (!value.is_string()) return absl::DataLossError("__metadata__ has a value that is not a string");
  }
  return absl::OkStatus();
}

// Checks rule 4: in order of offsets the tensors fill [header_bytes, file_bytes) exactly.
absl::Status CheckNoHoles(const std::vector<SafetensorsEntry>& entries, int64_t header_bytes, int64_t file_bytes) {
  int64_t position = header_bytes;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != position)
      return Broken(entry.name, entry.begin > position ? "a hole before it" : "overlaps the one before it");
    position = entry.end;
  }
  if (position == file_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the tensors end at byte ", position, ", the file at ", file_bytes));
}

void SortByWidthAndName(std::vector<SafetensorsEntry>* entries) {
  std::vector<std::pair<int, SafetensorsEntry>> by_bits;
  by_bits.reserve(entries->size());
  for (SafetensorsEntry& entry : *entries) {
    const int bits = BitsOf(entry.dtype);
    by_bits.emplace_back(bits, std::move(entry));
  }
  std::sort(by_bits.begin(), by_bits.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second.name < b.second.name;
  });
  for (size_t i = 0; i < by_bits.size(); ++i) (*entries)[i] = std::move(by_bits[i].second);
}

}  // namespace

absl::StatusOr<int64_t> TensorBytes(absl::string_view dtype, absl::Span<const int64_t> shape) {
  int64_t bits = BitsOf(dtype);
  if (bits == 0)
    return absl::InvalidArgumentError(absl::StrCat("unknown dtype \"", absl::CHexEscape(dtype.substr(0, 20)), "\""));
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bits, size, &bits))
      return absl::InvalidArgumentError("shape is negative or too large");
  }
  if (bits % 8 != 0) return absl::InvalidArgumentError("not a whole number of bytes");
  return bits / 8;
}

absl::StatusOr<std::string> LayOutSafetensors(std::vector<SafetensorsEntry>* entries) {
  SortByWidthAndName(entries);
  std::string header = R"({"__metadata__":{"format":"pt"})";
  int64_t position = 0;
  for (SafetensorsEntry& entry : *entries) {
    const absl::StatusOr<std::string> quoted = QuoteJson(entry.name);
    if (!quoted.ok() || entry.name.empty() || entry.name == kMetadata) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", absl::CHexEscape(entry.name), "\" cannot be a tensor's name"));
    }
    const absl::StatusOr<int64_t> bytes = TensorBytes(entry.dtype, entry.shape);
    if (!bytes.ok()) return Annotate(bytes.status(), entry.name);
    entry.begin = position;
    if (__builtin_add_overflow(position, *bytes, &position))
      return absl::InvalidArgumentError("too many bytes for one file");
    entry.end = position;
    absl::StrAppend(&header, ",", *quoted, R"(:{"dtype":")", entry.dtype, R"(","shape":[)",
                    absl::StrJoin(entry.shape, ","), R"(],"data_offsets":[)", entry.begin, ",", entry.end, "]}");
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMaxHeaderBytes)
    return absl::InvalidArgumentError("too many tensors for one file: the header would be over 100 MB");
  std::string bytes;
  AppendNumber<uint64_t>(header.size(), bytes);
  bytes += header;
  for (SafetensorsEntry& entry : *entries) {
    entry.begin += static_cast<int64_t>(bytes.size());
    entry.end += static_cast<int64_t>(bytes.size());
  }
  return bytes;
}

absl::StatusOr<int64_t> SafetensorsHeaderBytes(absl::string_view first_8_bytes, int64_t file_bytes) {
  if (first_8_bytes.size() < 8)
    return absl::DataLossError(absl::StrCat("only ", file_bytes, " bytes, not even a header"));
  const auto length = NumberAt<uint64_t>(first_8_bytes, 0);
  if (length > kMaxHeaderBytes || static_cast<int64_t>(length) + 8 > file_bytes) {
    return absl::DataLossError(absl::StrCat("header of ", length, " bytes in a file of ", file_bytes));
  }
  return static_cast<int64_t>(length) + 8;
}

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensors(absl::string_view header, int64_t file_bytes) {
  ASSIGN_OR_RETURN(const int64_t header_bytes, SafetensorsHeaderBytes(header.substr(0, 8), file_bytes));
  if (static_cast<int64_t>(header.size()) != header_bytes) return absl::DataLossError("incomplete header");
  absl::string_view text = header.substr(8);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty() || text.front() != '{' || text.back() != '}') return absl::DataLossError("header is no JSON object");
  RETURN_IF_ERROR(CheckJson(text, JsonLimits{.max_depth = 8}));
  const json object = ParseJson(text);
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, value] : object.items()) {
    if (name == kMetadata) {
      RETURN_IF_ERROR(CheckMetadata(value));
      continue;
    }
    ASSIGN_OR_RETURN(SafetensorsEntry entry, ParseEntry(name, value, header_bytes));
    entries.push_back(std::move(entry));
  }
  // Empty tensors share their begin with the tensor that follows, so the order is by begin, then end.
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  RETURN_IF_ERROR(CheckNoHoles(entries, header_bytes, file_bytes));
  return entries;
}

}  // namespace composer

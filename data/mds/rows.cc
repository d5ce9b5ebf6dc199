// SPDX-License-Identifier: Apache-2.0
#include "data/mds/rows.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/format/json.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// The values of a row as MDS encodes them.
using RowValues = std::vector<std::string>;

absl::Status BadColumn(const MdsColumn& column) {
  return absl::DataLossError(absl::StrCat("column `", column.name, "` has no ", column.encoding.name));
}

template <typename T>
std::string Encoded(T value) {
  std::string bytes;
  AppendNumber(value, bytes);
  return bytes;
}

absl::StatusOr<RowValues> SplitRow(const MdsShardInfo& info, absl::string_view row) {
  if (!absl::ConsumeSuffix(&row, info.rows->newline)) return absl::DataLossError("it does not end with the newline");
  const std::vector<absl::string_view> texts = absl::StrSplit(row, info.rows->separator);
  if (texts.size() != info.columns.size())
    return absl::DataLossError(absl::StrCat("it has ", texts.size(), " values for ", info.columns.size(), " columns"));
  RowValues values;
  for (size_t i = 0; i < texts.size(); ++i) {
    int64_t whole = 0;
    double real = 0;
    if (info.columns[i].encoding.number == MdsNumber::kInt64) {
      if (!absl::SimpleAtoi(texts[i], &whole)) return BadColumn(info.columns[i]);
      values.push_back(Encoded(whole));
    } else if (info.columns[i].encoding.number == MdsNumber::kFloat64) {
      if (!absl::SimpleAtod(texts[i], &real)) return BadColumn(info.columns[i]);
      values.push_back(Encoded(real));
    } else {
      values.emplace_back(texts[i]);
    }
  }
  return values;
}

absl::StatusOr<RowValues> ParseRow(const MdsShardInfo& info, absl::string_view row) {
  const auto json = ParseJson(row);
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  RowValues values;
  for (const MdsColumn& column : info.columns) {
    const auto value = json.find(column.name);
    if (value == json.end()) return BadColumn(column);
    const bool fits = !value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX;
    if (column.encoding.number == MdsNumber::kInt64) {
      if (!value->is_number_integer() || !fits) return BadColumn(column);
      values.push_back(Encoded(value->get<int64_t>()));
    } else if (column.encoding.number == MdsNumber::kFloat64) {
      if (!value->is_number()) return BadColumn(column);
      values.push_back(Encoded(value->get<double>()));
    } else {
      if (!value->is_string()) return BadColumn(column);
      values.push_back(value->get<std::string>());
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<OwnedBytes> MdsOfPlain(OwnedBytes plain, const MdsShardInfo& info) {
  if (!info.rows) return plain;
  if (static_cast<int64_t>(plain.bytes.size()) != PlainBytes(info))
    return absl::DataLossError("the shard has another size than the index says");
  const absl::string_view data = plain.bytes.substr(0, static_cast<size_t>(info.raw.bytes));
  const absl::string_view meta = plain.bytes.substr(data.size());
  const auto count = static_cast<size_t>(info.samples);
  if (meta.size() < 8 || NumberAt(meta, 0) != count || count > (meta.size() - 8) / 4)
    return absl::DataLossError("the shard does not have as many rows as the index says");
  std::string head, samples;
  AppendNumber(static_cast<uint32_t>(count), head);
  const size_t first = 4 * (count + 2);
  for (size_t i = 0; i <= count; ++i) {
    AppendNumber(static_cast<uint32_t>(first + samples.size()), head);
    if (i == count) break;
    const size_t begin = NumberAt(meta, 4 * (i + 1)), end = NumberAt(meta, 4 * (i + 2));
    if (begin > end || end > data.size()) return absl::DataLossError(absl::StrCat("row ", i, " is outside the shard"));
    const absl::string_view row = data.substr(begin, end - begin);
    auto values = info.rows->format == "json" ? ParseRow(info, row) : SplitRow(info, row);
    if (!values.ok()) return Annotate(values.status(), absl::StrCat("row ", i));
    for (size_t c = 0; c < values->size(); ++c) {
      if (!info.columns[c].encoding.size) AppendNumber(static_cast<uint32_t>((*values)[c].size()), samples);
    }
    for (const std::string& value : *values) samples += value;
    if (first + samples.size() > UINT32_MAX) return absl::DataLossError("the shard would have 4 GiB or more");
  }
  const auto owner = std::make_shared<const std::string>(head + samples);
  return OwnedBytes{owner, *owner};
}

}  // namespace composer

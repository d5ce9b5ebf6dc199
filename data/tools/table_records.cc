// SPDX-License-Identifier: Apache-2.0
#include "data/tools/table_records.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "data/tools/json_values.h"

namespace composer {
namespace {

using Json = nlohmann::json;

std::string EncodingOf(const ArrowColumn& column) {
  switch (column.kind) {
    case ArrowKind::kInteger:
    case ArrowKind::kNumber:
      return column.number;
    case ArrowKind::kIntegers:
    case ArrowKind::kNumbers:
      return absl::StrCat("ndarray:", column.number);
    case ArrowKind::kBytes:
      return "bytes";
    case ArrowKind::kJson:
      return "json";
    case ArrowKind::kText:
    case ArrowKind::kNull:
      break;
  }
  return "str";
}

Json JsonOf(ArrowValue& value, const MdsEncoding& encoding) {
  switch (value.kind) {
    case ArrowKind::kNull:
      return nullptr;
    case ArrowKind::kInteger:
      return value.integer;
    case ArrowKind::kNumber:
      return value.number;
    case ArrowKind::kIntegers:
      return std::move(value.integers);
    case ArrowKind::kNumbers:
      return std::move(value.numbers);
    case ArrowKind::kJson:
      if (encoding.kind == MdsKind::kJson) return ParseJson(value.text);
      break;
    case ArrowKind::kText:
    case ArrowKind::kBytes:
      break;
  }
  return std::move(value.text);
}

class TableRecords final : public RecordSource {
 public:
  explicit TableRecords(std::shared_ptr<const TableFiles> files) : files_(std::move(files)) {
    for (const ArrowColumn& column : files_->columns()) names_.push_back(column.name);
  }
  int64_t size() const override { return files_->size(); }
  const std::vector<std::string>& paths() const override { return files_->paths(); }
  absl::StatusOr<ColumnList> Columns() const override {
    ColumnList columns;
    for (const ArrowColumn& column : files_->columns()) columns.emplace_back(column.name, EncodingOf(column));
    return columns;
  }
  absl::StatusOr<std::vector<std::string>> Values(int64_t record,
                                                  const std::vector<MdsColumn>& columns) const override {
    std::vector<ArrowValue> row;
    RETURN_IF_ERROR(files_->Read(record, row));
    std::vector<std::string> values;
    for (const MdsColumn& column : columns) {
      const auto found = std::find(names_.begin(), names_.end(), column.name);
      if (found == names_.end())
        return absl::InvalidArgumentError(absl::StrCat("there is no column `", column.name, "`",
                                                       DidYouMean(column.name, names_), "; there are ",
                                                       absl::StrJoin(names_, ", ")));
      // Copied, since two columns may be made of one.
      ArrowValue value = row[static_cast<size_t>(found - names_.begin())];
      absl::StatusOr<std::string> encoded = EncodeJsonValue(column.encoding, JsonOf(value, column.encoding));
      if (!encoded.ok())
        return Annotate(encoded.status(), absl::StrCat(files_->Where(record), ", column `", column.name, "`"));
      values.push_back(*std::move(encoded));
    }
    return values;
  }

 private:
  const std::shared_ptr<const TableFiles> files_;
  std::vector<std::string> names_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenTableRecords(const std::vector<std::string>& paths,
                                                               TableFormat format) {
  constexpr int64_t kKeep = int64_t{256} << 20;  // they are read in their order
  ASSIGN_OR_RETURN(std::shared_ptr<const TableFiles> files,
                   TableFiles::Open({.paths = paths, .format = format, .keep_bytes = kKeep}));
  return std::make_unique<TableRecords>(std::move(files));
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "data/tools/record_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/format/json.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "data/text/record_files.h"
#include "data/tools/image_records.h"
#include "data/tools/json_values.h"
#include "data/tools/table_records.h"

namespace composer {
namespace {

using Json = nlohmann::json;

// Records of text files; what a record is, is the same for all.
class TextRecords : public RecordSource {
 public:
  explicit TextRecords(RecordFiles records) : records_(std::move(records)) {}
  int64_t size() const override { return records_.size(); }
  const std::vector<std::string>& paths() const override { return records_.paths(); }

 protected:
  absl::Status Bad(int64_t record, absl::string_view column, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(records_.Where(record), column.empty() ? "" : absl::StrCat(", key `", column, "`"), ": ", what));
  }
  const RecordFiles records_;
};

class JsonRecords final : public TextRecords {
 public:
  using TextRecords::TextRecords;
  absl::StatusOr<ColumnList> Columns() const override {
    ASSIGN_OR_RETURN(const Json object, Object(0));
    ColumnList columns;
    for (const auto& [key, value] : object.items()) columns.emplace_back(key, GuessEncoding(value));
    return columns;
  }
  absl::StatusOr<std::vector<std::string>> Values(int64_t record,
                                                  const std::vector<MdsColumn>& columns) const override {
    ASSIGN_OR_RETURN(const Json object, Object(record));
    std::vector<std::string> values;
    for (const MdsColumn& column : columns) {
      const auto found = object.find(column.name);
      if (found == object.end()) return Bad(record, column.name, "is missing");
      absl::StatusOr<std::string> value = EncodeJsonValue(column.encoding, *found);
      if (!value.ok()) return Bad(record, column.name, value.status().message());
      values.push_back(*std::move(value));
    }
    return values;
  }

 private:
  absl::StatusOr<Json> Object(int64_t record) const {
    const absl::string_view line = records_[record];
    Json object = ParseJson(line);
    if (!object.is_object()) return Bad(record, "", "this is not a JSON object");
    return object;
  }
};

class CsvRecords final : public TextRecords {
 public:
  CsvRecords(RecordFiles records, char separator)
      : TextRecords(std::move(records)), separator_(separator), columns_(CsvColumns(records_, separator)) {}
  absl::StatusOr<ColumnList> Columns() const override {
    ColumnList columns;
    for (const std::string& name : columns_) columns.emplace_back(name, "str");
    return columns;
  }
  absl::StatusOr<std::vector<std::string>> Values(int64_t record,
                                                  const std::vector<MdsColumn>& columns) const override {
    const std::vector<std::string> fields = SplitCsv(records_[record], separator_);
    if (fields.size() != columns_.size()) {
      return Bad(record, "",
                 absl::StrCat("this record has ", fields.size(), " fields; the first line names ", columns_.size()));
    }
    std::vector<std::string> values;
    for (const MdsColumn& column : columns) {
      const auto found = std::find(columns_.begin(), columns_.end(), column.name);
      if (found == columns_.end())
        return Bad(record, column.name,
                   absl::StrCat("there is no such column; there are ", absl::StrJoin(columns_, ", ")));
      absl::StatusOr<std::string> value =
          Encode(column.encoding, fields[static_cast<size_t>(found - columns_.begin())]);
      if (!value.ok()) return Bad(record, column.name, value.status().message());
      values.push_back(*std::move(value));
    }
    return values;
  }

 private:
  // Numbers, lists and JSON are written in a field as in JSON.
  static absl::StatusOr<std::string> Encode(const MdsEncoding& encoding, const std::string& field) {
    const bool parsed =
        encoding.kind == MdsKind::kNumber || encoding.kind == MdsKind::kArray || encoding.kind == MdsKind::kJson;
    if (!parsed) return EncodeJsonValue(encoding, Json(field));
    const Json value = ParseJson(field);
    if (value.is_discarded())
      return absl::InvalidArgumentError(
          absl::StrCat("`", field.substr(0, 60), "` does not fit the encoding ", encoding.name));
    return EncodeJsonValue(encoding, value);
  }

  const char separator_;
  const std::vector<std::string> columns_;
};

class LineRecords final : public TextRecords {
 public:
  using TextRecords::TextRecords;
  absl::StatusOr<ColumnList> Columns() const override { return ColumnList{{"text", "str"}}; }
  absl::StatusOr<std::vector<std::string>> Values(int64_t record,
                                                  const std::vector<MdsColumn>& columns) const override {
    std::vector<std::string> values;
    for (const MdsColumn& column : columns) {
      if (column.name != "text") return Bad(record, column.name, "there is no such column; lines have only `text`");
      absl::StatusOr<std::string> value = EncodeJsonValue(column.encoding, Json(std::string(records_[record])));
      if (!value.ok()) return Bad(record, column.name, value.status().message());
      values.push_back(*std::move(value));
    }
    return values;
  }
};

absl::string_view NumberName(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
      return "uint8";
    case TokenType::kUint16:
      return "uint16";
    case TokenType::kInt32:
      return "int32";
    case TokenType::kUint32:
      return "uint32";
    case TokenType::kInt64:
      break;
  }
  return "int64";
}

// An array of a fixed shape is its bytes, in MDS as in the files.
class TokenRecords final : public RecordSource {
 public:
  TokenRecords(std::vector<TokenFile> files, std::vector<std::string> paths, int64_t row)
      : files_(std::move(files)), paths_(std::move(paths)), row_(row) {
    for (const TokenFile& file : files_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + file.size() / row);
  }
  int64_t size() const override { return ends_.back(); }
  const std::vector<std::string>& paths() const override { return paths_; }
  absl::StatusOr<ColumnList> Columns() const override { return ColumnList{{"tokens", Encoding()}}; }
  absl::StatusOr<std::vector<std::string>> Values(int64_t record,
                                                  const std::vector<MdsColumn>& columns) const override {
    if (columns.size() != 1 || columns[0].name != "tokens" || columns[0].encoding.name != Encoding())
      return absl::InvalidArgumentError(absl::StrCat("rows of tokens have the one column tokens:", Encoding()));
    const auto file = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), record) - ends_.begin());
    const auto width = static_cast<size_t>(row_) * BytesOf(files_[file].type);
    const int64_t in_file = record - (file == 0 ? 0 : ends_[file - 1]);
    return std::vector<std::string>{
        std::string(files_[file].tokens.substr(static_cast<size_t>(in_file) * width, width))};
  }

 private:
  std::string Encoding() const { return absl::StrCat("ndarray:", NumberName(files_[0].type), ":", row_); }

  const std::vector<TokenFile> files_;
  const std::vector<std::string> paths_;
  const int64_t row_;
  std::vector<int64_t> ends_;  // of each file's rows
};

absl::StatusOr<std::unique_ptr<RecordSource>> OpenTokenRows(const RecordOptions& options) {
  if (options.row < 1) return absl::InvalidArgumentError("--row: required for tokens: how many are a sample");
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(options.paths));
  std::vector<TokenFile> files;
  for (const std::string& path : paths) {
    if (paths.size() > 1 && absl::EndsWith(path, ".idx")) continue;  // belongs to a .bin file
    ASSIGN_OR_RETURN(files.emplace_back(), OpenTokenFile(path, options.type));
    if (files.back().type != files.front().type)
      return absl::InvalidArgumentError(absl::StrCat(path, " has tokens of another type than ", files.front().path));
  }
  return std::make_unique<TokenRecords>(std::move(files), paths, options.row);
}

// Returns the format that the file's name tells; "" for none.
std::string FormatOf(absl::string_view path) {
  absl::ConsumeSuffix(&path, ".gz");
  const std::pair<absl::string_view, const char*> endings[] = {
      {".jsonl", "jsonl"}, {".json", "jsonl"},    {".csv", "csv"},        {".tsv", "tsv"},    {".txt", "text"},
      {".npy", "tokens"},  {".bin", "tokens"},    {".idx", "tokens"},     {".pq", "parquet"}, {".arrow", "arrow"},
      {".ipc", "arrow"},   {".feather", "arrow"}, {".parquet", "parquet"}};
  for (const auto& [ending, format] : endings) {
    if (absl::EndsWith(path, ending)) return format;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenRecords(const RecordOptions& options) {
  std::string format = options.format;
  if (format == "images") {
    if (options.paths.size() != 1) return absl::InvalidArgumentError("--format images: takes one folder");
    return OpenImageRecords(options.paths[0]);
  }
  if (format.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, ExpandPaths(options.paths));
    format = FormatOf(paths.front());
    if (format.empty())
      return absl::InvalidArgumentError(absl::StrCat(paths.front(),
                                                     ": the name does not tell the format; give --format jsonl, csv, "
                                                     "tsv, text, tokens, parquet, arrow or images"));
  }
  if (format == "tokens") return OpenTokenRows(options);
  if (format == "parquet") return OpenTableRecords(options.paths, TableFormat::kParquet);
  if (format == "arrow") return OpenTableRecords(options.paths, TableFormat::kArrow);
  if (format == "csv" || format == "tsv") {
    ASSIGN_OR_RETURN(RecordFiles records, RecordFiles::Open(options.paths, RecordKind::kCsv, /*header=*/true));
    return std::make_unique<CsvRecords>(std::move(records), format == "csv" ? ',' : '\t');
  }
  ASSIGN_OR_RETURN(RecordFiles records, RecordFiles::Open(options.paths, RecordKind::kLines));
  if (format == "jsonl") return std::make_unique<JsonRecords>(std::move(records));
  if (format == "text") return std::make_unique<LineRecords>(std::move(records));
  return absl::InvalidArgumentError(
      absl::StrCat("--format: there is no `", format, "`",
                   DidYouMean(format, {"jsonl", "csv", "tsv", "text", "tokens", "parquet", "arrow", "images"})));
}

}  // namespace composer

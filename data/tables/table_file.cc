// SPDX-License-Identifier: Apache-2.0
#include "data/tables/table_file.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/tables/arrow_loader.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

// What the file's first bytes say. A stream of Arrow begins with the mark of its first message.
std::optional<TableFormat> FormatOfBytes(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "PAR1") || absl::StartsWith(bytes, "PARE")) return TableFormat::kParquet;
  if (absl::StartsWith(bytes, "ARROW1") || absl::StartsWith(bytes, "\xff\xff\xff\xff")) return TableFormat::kArrow;
  return std::nullopt;
}

absl::Status CheckFormat(const std::string& place, absl::string_view bytes, TableFormat format) {
  const std::optional<TableFormat> found = FormatOfBytes(bytes);
  const char* const wanted = format == TableFormat::kParquet ? "Parquet" : "Arrow";
  if (found == format) return absl::OkStatus();
  if (!found) return absl::InvalidArgumentError(absl::StrCat(place, ": this is no ", wanted, " file"));
  return absl::InvalidArgumentError(absl::StrCat(place, ": this is no ", wanted, " file: it is one for ",
                                                 *found == TableFormat::kParquet ? "parquet" : "arrow"));
}

}  // namespace

std::vector<std::string> EndingsOf(TableFormat format) {
  if (format == TableFormat::kParquet) return {".parquet", ".pq"};
  return {".arrow", ".feather", ".ipc"};
}

absl::StatusOr<TableInMemory> OpenTableBytes(const std::string& place, std::shared_ptr<const void> owner,
                                             absl::string_view bytes, TableFormat format, const TableColumns& columns) {
  RETURN_IF_ERROR(CheckFormat(place, bytes, format));
  ASSIGN_OR_RETURN(OpenArrowFunction* const open, LoadArrow());
  std::string error;
  const ArrowRequest request{std::string_view(bytes.data(), bytes.size()), columns.names, columns.if_present};
  std::shared_ptr<ArrowFile> arrow = open(request, error);
  if (arrow == nullptr) return absl::InvalidArgumentError(absl::StrCat(place, ": ", error));
  return TableInMemory{std::move(owner), std::move(arrow)};
}

absl::StatusOr<TableFile> OpenTableHere(const std::string& path, TableFormat format, const TableColumns& columns) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(const TableInMemory opened, OpenTableBytes(path, file, file->bytes(), format, columns));
  TableFile table{.place = path, .bytes = static_cast<int64_t>(file->bytes().size())};
  table.columns = opened.arrow->columns();
  table.groups = opened.arrow->groups();
  table.open = [opened]() -> absl::StatusOr<TableInMemory> { return opened; };
  return table;
}

}  // namespace composer

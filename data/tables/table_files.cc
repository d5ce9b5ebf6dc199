// SPDX-License-Identifier: Apache-2.0
#include "data/tables/table_files.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/text/record_files.h"

namespace composer {
namespace {

constexpr size_t kMostKept = 4096;  // groups
constexpr size_t kFetchesAtOnce = 8;
constexpr int64_t kMostRows = int64_t{1} << 62;

// Of a folder only its tables: beside those of Hugging Face lie a README and JSON.
absl::StatusOr<std::vector<std::string>> TablesIn(const std::string& path, TableFormat format) {
  ASSIGN_OR_RETURN(std::vector<std::string> files, ExpandPaths({path}));
  if (!IsDirectory(path)) return files;
  const std::vector<std::string> endings = EndingsOf(format);
  std::erase_if(files, [&](const std::string& file) {
    return std::none_of(endings.begin(), endings.end(),
                        [&](const std::string& ending) { return absl::EndsWith(file, ending); });
  });
  if (!files.empty()) return files;
  return absl::NotFoundError(absl::StrCat(path, ": there is no file of the ending ",
                                          format == TableFormat::kParquet ? ".parquet" : ".arrow, .feather or .ipc",
                                          " in this folder"));
}

using OpenTable = std::function<absl::StatusOr<TableFile>(size_t file, const TableColumns& columns)>;

// Opens the files on several threads. The first one says which columns the others must have.
absl::StatusOr<std::vector<TableFile>> OpenAll(size_t count, size_t threads, TableColumns columns,
                                               const OpenTable& open) {
  std::vector<absl::StatusOr<TableFile>> opened(count, absl::UnknownError("not opened"));
  opened[0] = open(0, columns);
  RETURN_IF_ERROR(opened[0].status());
  columns = {};
  for (const ArrowColumn& column : opened[0]->columns) columns.names.push_back(column.name);
  std::atomic<size_t> next = 1;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) opened[i] = open(i, columns);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  std::vector<TableFile> files;
  for (absl::StatusOr<TableFile>& file : opened) {
    RETURN_IF_ERROR(file.status());
    files.push_back(*std::move(file));
  }
  return files;
}

absl::StatusOr<std::vector<TableFile>> OpenHere(const TableFilesOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& path : options.paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found, TablesIn(path, options.format));
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return OpenAll(paths.size(), 1, options.columns, [&](size_t file, const TableColumns& columns) {
    return OpenTableHere(paths[file], options.format, columns);
  });
}

absl::StatusOr<std::vector<TableFile>> OpenRemote(const TableFilesOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardCache> cache, OpenFetchCache(options.fetch));
  ASSIGN_OR_RETURN(const std::vector<RemoteFile> files,
                   FindRemoteFiles(options.paths, EndingsOf(options.format), options.open_store));
  // With a bounded cache one at a time, so that they do not wait for each other's room.
  const size_t threads = options.fetch.cache_limit ? 1 : kFetchesAtOnce;
  return OpenAll(files.size(), threads, options.columns, [&](size_t file, const TableColumns& columns) {
    return OpenRemoteTable(files[file], options.format, columns, options.fetch.local, cache);
  });
}

}  // namespace

// A decoded group, or one that is being decoded.
struct TableFiles::Kept {
  absl::Mutex mutex;  // held while it is decoded
  absl::StatusOr<std::shared_ptr<const ArrowRows>> rows ABSL_GUARDED_BY(mutex) = absl::UnknownError("not decoded");
  bool done ABSL_GUARDED_BY(mutex) = false;
  TableInMemory file ABSL_GUARDED_BY(mutex);  // where the rows lie in its bytes
  uint64_t used = 0;                          // guarded by the files' mutex
};

TableFiles::~TableFiles() = default;

const std::vector<ArrowColumn>& TableFiles::columns() const { return files_.front().columns; }

absl::StatusOr<std::shared_ptr<const TableFiles>> TableFiles::Open(const TableFilesOptions& options) {
  std::shared_ptr<TableFiles> tables(new TableFiles);
  tables->keep_bytes_ = options.keep_bytes;
  tables->format_ = options.format;
  ASSIGN_OR_RETURN(std::vector<TableFile> files, options.fetch.local.empty() ? OpenHere(options) : OpenRemote(options));
  for (TableFile& file : files) RETURN_IF_ERROR(tables->AddFile(std::move(file)));
  if (tables->size() == 0) return absl::InvalidArgumentError(absl::StrCat(options.paths.front(), ": it has no rows"));
  return tables;
}

absl::Status TableFiles::AddFile(TableFile file) {
  for (size_t i = 0; !files_.empty() && i < columns().size(); ++i) {
    if (file.columns[i].kind != columns()[i].kind)
      return absl::InvalidArgumentError(absl::StrCat(file.place, ": its column `", columns()[i].name,
                                                     "` is of another type than that of ", files_.front().place));
  }
  int64_t rows = 0, first = 0;
  for (const ArrowGroup& group : file.groups) {
    if (group.rows < 0 || group.rows > kMostRows - size() - rows)
      return absl::DataLossError(absl::StrCat(file.place, ": it claims too many rows"));
    rows += group.rows;
  }
  for (size_t i = 0; i < file.groups.size(); ++i) {
    ArrowGroup group = file.groups[i];
    if (group.rows == 0) continue;
    // Mapped rows keep their file in the cache: they count as what they take of it.
    const double share = static_cast<double>(group.rows) / static_cast<double>(rows);
    if (file.is_remote && group.bytes == 0)
      group.bytes = 1 + static_cast<int64_t>(share * static_cast<double>(file.bytes));
    places_.push_back({files_.size(), i, first});
    ends_.push_back(size() + group.rows);
    groups_.push_back(group);
    first += group.rows;
  }
  paths_.push_back(file.place);
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

void TableFiles::Fetch(size_t file) const { files_[file].open().status().IgnoreError(); }

size_t TableFiles::GroupOf(int64_t row) const {
  return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin());
}

std::string TableFiles::Where(int64_t row) const {
  const size_t group = GroupOf(row);
  const int64_t in_group = row - (group == 0 ? 0 : ends_[group - 1]);
  return absl::StrCat(files_[places_[group].file].place, ", row ", places_[group].first + in_group);
}

// Forgets the groups that were used longest ago. Who reads one keeps it in memory until then.
void TableFiles::MakeRoom(size_t group) const {
  int64_t bytes = 0;
  for (const auto& [number, kept] : kept_) bytes += groups_[number].bytes;
  while (kept_.size() > 1 && (bytes > keep_bytes_ || kept_.size() > kMostKept)) {
    auto oldest = kept_.end();
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->first != group && (oldest == kept_.end() || it->second->used < oldest->second->used)) oldest = it;
    }
    bytes -= groups_[oldest->first].bytes;
    kept_.erase(oldest);
  }
}

absl::StatusOr<std::shared_ptr<const ArrowRows>> TableFiles::Rows(size_t group) const {
  std::shared_ptr<Kept> kept;
  {
    const absl::MutexLock lock(&mutex_);
    std::shared_ptr<Kept>& known = kept_[group];
    const bool is_new = known == nullptr;
    if (is_new) known = std::make_shared<Kept>();
    kept = known;
    kept->used = ++uses_;
    if (is_new) MakeRoom(group);
  }
  const absl::MutexLock lock(&kept->mutex);
  if (kept->done) return kept->rows;
  kept->done = true;
  const TableFile& file = files_[places_[group].file];
  absl::StatusOr<TableInMemory> opened = file.open();
  if (!opened.ok()) return kept->rows = opened.status();
  std::string error;
  std::shared_ptr<const ArrowRows> rows = opened->arrow->Read(places_[group].group, error);
  if (rows == nullptr) {
    kept->rows = absl::DataLossError(absl::StrCat(file.place, ": group ", places_[group].group, ": ", error));
    return kept->rows;
  }
  kept->rows = std::move(rows);
  if (format_ == TableFormat::kArrow) kept->file = *std::move(opened);
  return kept->rows;
}

absl::Status TableFiles::Read(int64_t row, std::vector<ArrowValue>& values) const {
  const size_t group = GroupOf(row);
  if (row < 0 || group == groups_.size())
    return absl::OutOfRangeError(absl::StrCat("there is no row ", row, " of ", size()));
  ASSIGN_OR_RETURN(const std::shared_ptr<const ArrowRows> rows, Rows(group));
  const int64_t in_group = row - (group == 0 ? 0 : ends_[group - 1]);
  values.resize(columns().size());
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string error = rows->Value(in_group, i, values[i]);
    if (!error.empty())
      return absl::InvalidArgumentError(absl::StrCat(Where(row), ": column `", columns()[i].name, "` ", error));
  }
  return absl::OkStatus();
}

}  // namespace composer

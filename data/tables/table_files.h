// Rows of Parquet and Arrow files, by number. A row group of a Parquet file (or a compressed batch) is decoded whole
// when one of its rows is read, and kept for the next ones, as long as `keep_bytes` allow: rows should be read group by
// group, or several groups at a time. Uncompressed Arrow files are mapped, and cost nothing in any order. Files in
// stores are fetched into a folder when they are first read (table_file.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "data/tables/table_file.h"

namespace composer {

struct TableFilesOptions {
  std::vector<std::string> paths;  // files, globs, or folders: of these the files .parquet or .arrow, .feather, .ipc
  TableFormat format = TableFormat::kParquet;
  TableColumns columns;
  int64_t keep_bytes = int64_t{1} << 30;
  FetchOptions fetch;  // with `local`, the paths are URLs, whose places these stores are
  StoreOpener open_store;
};

// Thread-safe.
class TableFiles {
 public:
  // All files must have the columns of the first, of the same kinds. kInvalidArgument and kDataLoss name the file;
  // kFailedPrecondition: Arrow is not installed.
  static absl::StatusOr<std::shared_ptr<const TableFiles>> Open(const TableFilesOptions& options);
  ~TableFiles();

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  const std::vector<ArrowColumn>& columns() const;
  const std::vector<TableFile>& files() const { return files_; }
  const std::vector<std::string>& paths() const { return paths_; }
  // Of all files, in their order, without empty ones.
  const std::vector<ArrowGroup>& groups() const { return groups_; }

  // Sets values[i] to the row's value of column i. 0 <= row < size(). kDataLoss and kInvalidArgument name file, row and
  // column.
  absl::Status Read(int64_t row, std::vector<ArrowValue>& values) const;
  std::string Where(int64_t row) const;  // "a.parquet, row 12", for messages
  // Fetches a row's file, if it must be, and leaves it in the cache; errors are left to who reads it.
  size_t FileOf(int64_t row) const { return places_[GroupOf(row)].file; }
  void Fetch(size_t file) const;

 private:
  struct Kept;
  struct Place {
    size_t file = 0, group = 0;  // the group's number in its file
    int64_t first = 0;           // row of its first in the file
  };

  TableFiles() = default;
  absl::Status AddFile(TableFile file);
  absl::StatusOr<std::shared_ptr<const ArrowRows>> Rows(size_t group) const;
  void MakeRoom(size_t group) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t GroupOf(int64_t row) const;

  std::vector<TableFile> files_;
  std::vector<std::string> paths_;  // their places
  std::vector<ArrowGroup> groups_;
  std::vector<Place> places_;  // of each group
  std::vector<int64_t> ends_;  // of each group's rows
  int64_t keep_bytes_ = 0;
  TableFormat format_ = TableFormat::kParquet;

  mutable absl::Mutex mutex_;
  mutable std::map<size_t, std::shared_ptr<Kept>> kept_ ABSL_GUARDED_BY(mutex_);
  mutable uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace composer

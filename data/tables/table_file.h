// One Parquet or Arrow file, on this node or in a store: what is in it is known from the start, its bytes when they are
// needed.
//
// Of a file in a store, Parquet's list of groups is fetched from the file's end; an Arrow file, whose batches have to
// be looked for, is fetched whole once. A file that has been fetched is decoded once, to see that it is good. What is
// then known of it is kept beside the fetched files (<name>.table, JSON with the file's checksum): later starts fetch
// nothing before it is needed, and a file that has become another one is an error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/cache/remote_files.h"
#include "data/tables/arrow_module.h"

namespace composer {

enum class TableFormat { kParquet, kArrow };  // kArrow: the IPC format, as a file or a stream
// Returns the endings of the format's files, such as ".parquet".
std::vector<std::string> EndingsOf(TableFormat format);

// Which columns are read, in this order; empty: all. With `if_present`, those of them that the file has.
struct TableColumns {
  std::vector<std::string> names;
  bool if_present = false;
};

struct TableInMemory {
  std::shared_ptr<const void> owner;  // of the bytes
  std::shared_ptr<ArrowFile> arrow;
};

struct TableFile {
  std::string place;  // a path or a URL
  int64_t bytes = 0;
  bool is_remote = false;
  std::vector<ArrowColumn> columns;
  std::vector<ArrowGroup> groups;
  // Returns the file, fetched if it must be. Thread-safe. As long as the result lives, it is in the node's cache.
  std::function<absl::StatusOr<TableInMemory>()> open;
};

// kInvalidArgument: the file is of another format, or lacks a column. Errors name it.
absl::StatusOr<TableInMemory> OpenTableBytes(const std::string& place, std::shared_ptr<const void> owner,
                                             absl::string_view bytes, TableFormat format, const TableColumns& columns);
absl::StatusOr<TableFile> OpenTableHere(const std::string& path, TableFormat format, const TableColumns& columns);
// `cache` is that of the folder. Errors also as of ShardCache::Get.
absl::StatusOr<TableFile> OpenRemoteTable(const RemoteFile& file, TableFormat format, const TableColumns& columns,
                                          const std::string& folder, const std::shared_ptr<ShardCache>& cache);

}  // namespace composer

// The records of text files (lines, or records of CSV), found once when they are opened and read without copying. Files
// ending in .gz are decompressed into memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Returns the files that these paths name, each a file, a folder (its files, without hidden ones) or a glob, sorted
// within each path. kNotFound for a path that names none.
absl::StatusOr<std::vector<std::string>> ExpandPaths(const std::vector<std::string>& paths);

enum class RecordKind { kLines, kCsv };  // kCsv: line ends inside double quotes belong to the record

// Threads: any number at a time. Costs 8 bytes a record.
class RecordFiles {
 public:
  // Empty lines are left out, and line ends (\n or \r\n). `header`: each file's first record is not a sample; all must
  // be equal. kInvalidArgument naming file and line for a record above 256 MiB or an open quote.
  static absl::StatusOr<RecordFiles> Open(const std::vector<std::string>& paths, RecordKind kind, bool header = false);

  int64_t size() const { return static_cast<int64_t>(records_.size()); }
  absl::string_view operator[](int64_t i) const;
  absl::string_view header() const { return header_; }
  // Returns "data/a.jsonl, at byte 1234", for messages.
  std::string Where(int64_t i) const;
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  struct Part {
    std::string path;
    absl::string_view bytes;
    std::shared_ptr<const void> owner;
    size_t first = 0;  // record
  };
  const Part& PartOf(int64_t i) const;
  absl::Status Index(Part& part, RecordKind kind, bool header);

  std::vector<std::string> paths_;
  std::vector<Part> parts_;
  std::vector<uint64_t> records_;  // offset in its part
  RecordKind kind_ = RecordKind::kLines;
  absl::string_view header_;
};

// Returns the fields of a CSV record (RFC 4180). An unclosed quote ends with the record.
std::vector<std::string> SplitCsv(absl::string_view record, char separator);
// Returns the names of the columns, from the header.
std::vector<std::string> CsvColumns(const RecordFiles& records, char separator);

}  // namespace composer

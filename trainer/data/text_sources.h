// Samples out of text files: JSON lines, CSV, and plain text. Paths are files, folders or globs; .gz is decompressed.
// A value becomes a text or a tensor of the sample under the key that the file gives it:
//   JSON   a string: a text; true, false and whole numbers: an int64 scalar; other numbers: a float32 scalar; a list of
//          numbers: an int64 or float32 row; null: nothing; everything else: a text with its JSON
//   CSV    a text, but `features` together are `inputs`, float32 [n], and `target` is `targets`, int64
//   text   "text"
// Threads: any number at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/dataset.h"

namespace composer {

// Get throws c10::ValueError naming file and byte for a line that is not a JSON object.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenJsonLines(const std::vector<std::string>& paths);

struct CsvOptions {
  std::vector<std::string> paths;
  char separator = ',';
  // Columns of numbers. All must be in the first line, which names the columns; empty: no `inputs`.
  std::vector<std::string> features;
  std::string target;  // a column of whole numbers; "": no `targets`
};
// Follows RFC 4180. kInvalidArgument for a column that is not there, naming those that are.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenCsv(const CsvOptions& options);

enum class TextUnit { kLine, kFile };
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenTexts(const std::vector<std::string>& paths, TextUnit unit);

}  // namespace composer

// Opens arbitrary bytes as a Parquet or Arrow file through Apache Arrow, reads each group that it claims to have, and
// all values: a damaged file is an error, and never a crash. Only our own part is instrumented; Arrow is the library of
// the wheel.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "data/tables/arrow_module.h"

namespace {

constexpr int64_t kMostRows = 1000;  // of a group, whose values are looked at
constexpr int64_t kMostClaimed = int64_t{1} << 24;

void TryTable(const composer::ArrowRequest& request) {
  std::string error;
  const std::unique_ptr<composer::ArrowFile> file = composer_arrow_open()(request, error);
  if ((file == nullptr) == error.empty()) std::abort();
  if (file == nullptr) return;
  for (size_t group = 0; group < std::min<size_t>(file->groups().size(), 20); ++group) {
    if (file->groups()[group].rows < 0) std::abort();
    // What a file claims is what is taken to decode it.
    if (file->groups()[group].bytes > kMostClaimed || file->groups()[group].rows > kMostClaimed) continue;
    const auto rows = file->Read(group, error);
    if (rows == nullptr && error.empty()) std::abort();
    const int64_t count = rows == nullptr ? 0 : std::min(file->groups()[group].rows, kMostRows);
    for (int64_t row = 0; row < count; ++row) {
      composer::ArrowValue value;
      for (size_t column = 0; column < file->columns().size(); ++column) (void)rows->Value(row, column, value);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  TryTable({bytes, {}, false});
  TryTable({bytes, {"id", "messages", "text"}, true});
  return 0;
}

// Runs the readers of text data on arbitrary bytes: records of lines and CSV, whose texts must lie in the file and be
// all of it; the headers of .npy files and Megatron's indices, which must not promise more than the file has.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "data/text/npy.h"
#include "data/text/record_files.h"
#include "data/text/token_file.h"

namespace {

void TryRecords(absl::string_view bytes) {
  static const std::string path = absl::StrCat("/dev/shm/text_data_fuzz.", getpid());
  if (!composer::AtomicWriteFile(path, bytes).ok()) return;
  for (const auto kind : {composer::RecordKind::kLines, composer::RecordKind::kCsv}) {
    for (const bool header : {false, true}) {
      const auto records = composer::RecordFiles::Open({path}, kind, header);
      if (!records.ok()) continue;
      size_t size = 0;
      for (int64_t i = 0; i < records->size(); ++i) {
        const absl::string_view record = (*records)[i];
        if (record.empty() || (kind == composer::RecordKind::kLines && record.find('\n') != record.npos)) std::abort();
        size += record.size();
        if (composer::SplitCsv(record, ',').empty()) std::abort();
      }
      if (size > bytes.size()) std::abort();
      composer::CsvColumns(*records, ';');
    }
  }
  unlink(path.c_str());
}

void TryNpy(absl::string_view bytes) {
  const auto array = composer::ReadNpyHeader(bytes);
  if (!array.ok()) return;
  size_t left = bytes.size() - array->begin;
  size_t numbers = 1;
  for (const int64_t size : array->shape) {
    if (size == 0) return;
    if (__builtin_mul_overflow(numbers, static_cast<size_t>(size), &numbers)) std::abort();
  }
  if (numbers > left / array->width) std::abort();
}

void TryIndex(absl::string_view bytes) {
  const auto index = composer::ReadMegatronIndex(bytes);
  if (index.ok() && (index->tokens < 0 || index->sequences > static_cast<int64_t>(bytes.size()))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      TryNpy(bytes);
      break;
    case 1:
      TryNpy(absl::StrCat(absl::string_view("\x93NUMPY\x01\0", 8), bytes));
      break;
    case 2:
      TryIndex(bytes);
      TryIndex(absl::StrCat(absl::string_view("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17), bytes));
      break;
    default:
      TryRecords(bytes);
  }
  return 0;
}

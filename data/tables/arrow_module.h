// What is used of Apache Arrow, behind one C entry point: a module of its own (composer_arrow.so), so that a process
// loads Arrow's 60 MB only for Parquet and Arrow files. Only types of the standard library cross it, and no exception.
//
// Arrow's values become these, by type:
//   kInteger   bool, whole numbers, dates, times and durations (in the file's unit)
//   kNumber    half, float and double
//   kText      string, decimal; of dictionaries, what they stand for
//   kBytes     binary; and a struct of `bytes` and `path`, as Hugging Face keeps pictures and sounds: its bytes
//   kIntegers, kNumbers   lists of these
//   kJson      lists of other values, structs, maps: their JSON, with decimals as texts and binary refused
// Source: Arrow Columnar Format 1.5; Hugging Face datasets, features/image.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace composer {

enum class ArrowKind { kNull, kInteger, kNumber, kText, kBytes, kIntegers, kNumbers, kJson };

struct ArrowColumn {
  std::string name;
  ArrowKind kind = ArrowKind::kText;
  std::string number;  // of kInteger(s) and kNumber(s): "uint8", "int32", "float32", …, of each number
};

struct ArrowValue {
  ArrowKind kind = ArrowKind::kNull;  // the column's, or kNull
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<int64_t> integers;
  std::vector<double> numbers;
};

// Rows that were decoded together. Thread-safe.
class ArrowRows {
 public:
  virtual ~ArrowRows() = default;
  // Returns "", or why this value cannot be had.
  virtual std::string Value(int64_t row, size_t column, ArrowValue& value) const = 0;
};

// Rows that are decoded together: Parquet's row group, Arrow's record batch.
struct ArrowGroup {
  int64_t rows = 0;
  int64_t bytes = 0;  // of memory, about; 0: it is only mapped
};

// A file in memory. Thread-safe. The rows of Parquet hold memory of their own, those of Arrow may lie in the file's.
class ArrowFile {
 public:
  virtual ~ArrowFile() = default;
  virtual const std::vector<ArrowColumn>& columns() const = 0;
  virtual const std::vector<ArrowGroup>& groups() const = 0;
  // Decodes and checks a group; null, with the reason, when it is damaged.
  virtual std::shared_ptr<const ArrowRows> Read(size_t group, std::string& error) = 0;
};

struct ArrowRequest {
  std::string_view bytes;            // must outlive the file, and the rows of an Arrow file
  std::vector<std::string> columns;  // those to read, in this order; empty: all
  bool if_present = false;           // of `columns`, those that the file has
};

// Opens a Parquet file, or an Arrow file (IPC format or stream). Null, with the reason, when it is none or lacks a
// column.
using OpenArrowFunction = std::unique_ptr<ArrowFile>(const ArrowRequest& request, std::string& error);

}  // namespace composer

// The module's entry points. The version must equal the loader's COMPOSER_VERSION.
extern "C" const char* composer_arrow_version();
extern "C" composer::OpenArrowFunction* composer_arrow_open();

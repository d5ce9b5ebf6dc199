// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/tensor_files.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/safetensors.h"
#include "data/text/npy.h"
#include "data/text/record_files.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

// The values of one key in one file.
struct Column {
  std::shared_ptr<const MappedFile> file;
  absl::string_view bytes;
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> row;  // shape of a sample's value
  size_t row_bytes = 0;
};
using Columns = std::map<std::string, Column>;

struct Part {
  std::string path;
  Columns columns;
  int64_t first = 0, rows = 0;  // samples of all files
};

at::Tensor ValueOf(const Column& column, int64_t row) {
  at::Tensor raw = torch::empty(column.row, column.type);
  const auto begin = static_cast<size_t>(row) * column.row_bytes;
  if (column.row_bytes > 0) std::memcpy(raw.mutable_data_ptr(), column.bytes.data() + begin, column.row_bytes);
  if (at::isFloatingType(column.type)) return raw.to(at::kFloat);
  return column.type == at::kByte && raw.dim() > 0 ? raw : raw.to(at::kLong);
}

class TensorFiles final : public SampleSource {
 public:
  explicit TensorFiles(std::vector<Part> parts) : parts_(std::move(parts)) {}
  int64_t size() const override { return parts_.back().first + parts_.back().rows; }
  Sample Get(int64_t index) const override {
    TORCH_CHECK_INDEX(0 <= index && index < size(), "sample ", index, " of ", size());
    const auto after = std::upper_bound(parts_.begin(), parts_.end(), index,
                                        [](int64_t i, const Part& part) { return i < part.first; });
    const Part& part = *std::prev(after);
    Sample sample;
    for (const auto& [key, column] : part.columns) sample.tensors[key] = ValueOf(column, index - part.first);
    return sample;
  }

 private:
  const std::vector<Part> parts_;  // none is empty
};

absl::Status Bad(const std::string& path, const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": `", key, "` ", what));
}

// Adds a key to a part, whose number of rows the first key gives.
absl::Status AddKey(const std::string& path, const std::string& key, Column column, std::vector<int64_t> shape,
                    Part& part) {
  if (shape.empty()) return Bad(path, key, "is a single number; its first dimension must count the samples");
  if (c10::isComplexType(column.type)) return Bad(path, key, "has complex numbers");
  if (!part.columns.empty() && shape[0] != part.rows)
    return Bad(path, key,
               absl::StrCat("has ", shape[0], " rows, but `", part.columns.begin()->first, "` has ", part.rows));
  part.rows = shape[0];
  column.row.assign(shape.begin() + 1, shape.end());
  column.row_bytes = part.rows == 0 ? 0 : column.bytes.size() / static_cast<size_t>(part.rows);
  if (!part.columns.emplace(key, std::move(column)).second) return Bad(path, key, "comes from two files");
  return absl::OkStatus();
}

absl::StatusOr<Part> OpenSafetensors(const std::string& path) {
  Part part{.path = path};
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  const absl::string_view bytes = file->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  const absl::StatusOr<int64_t> header = SafetensorsHeaderBytes(bytes.substr(0, 8), size);
  if (!header.ok()) return Annotate(header.status(), path);
  const auto entries = ParseSafetensors(bytes.substr(0, static_cast<size_t>(*header)), size);
  if (!entries.ok()) return Annotate(entries.status(), path);
  for (const SafetensorsEntry& entry : *entries) {
    const std::optional<at::ScalarType> type = DTypeFromName(entry.dtype);
    if (!type) return Bad(path, entry.name, absl::StrCat("is of the type ", entry.dtype, ", which torch has not"));
    const auto begin = static_cast<size_t>(entry.begin), end = static_cast<size_t>(entry.end);
    RETURN_IF_ERROR(AddKey(path, entry.name, {.file = file, .bytes = bytes.substr(begin, end - begin), .type = *type},
                           entry.shape, part));
  }
  return part;
}

at::ScalarType TypeOfNpy(absl::string_view type) {
  constexpr std::pair<absl::string_view, at::ScalarType> kTypes[] = {
      {"|b1", at::kBool},  {"|u1", at::kByte},   {"|i1", at::kChar},  {"<u2", at::kUInt16},
      {"<i2", at::kShort}, {"<u4", at::kUInt32}, {"<i4", at::kInt},   {"<u8", at::kUInt64},
      {"<i8", at::kLong},  {"<f2", at::kHalf},   {"<f4", at::kFloat}, {"<f8", at::kDouble}};
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& known) { return known.first == type; });
  TORCH_CHECK(found != std::end(kTypes), "no tensor has NumPy's type ", std::string(type));
  return found->second;
}

absl::Status AddNpy(const std::string& path, Part& part) {
  const std::string name = BaseName(path);
  Column column;
  ASSIGN_OR_RETURN(column.file, MappedFile::Open(path));
  const absl::StatusOr<NpyArray> array = ReadNpyHeader(column.file->bytes());
  if (!array.ok()) return Annotate(array.status(), path);
  size_t numbers = 1;
  for (const int64_t size : array->shape) numbers *= static_cast<size_t>(size);
  column.type = TypeOfNpy(array->type);
  column.bytes = column.file->bytes().substr(array->begin, numbers * array->width);
  return AddKey(path, name.substr(0, name.size() - 4), std::move(column), array->shape, part);
}

// kInvalidArgument if the samples of two files would be of different kinds.
absl::Status CheckAlike(const Part& first, const Part& other) {
  const auto keys = [](const Part& part) {
    return absl::StrJoin(part.columns, ", ", [](std::string* out, const auto& column) { *out += column.first; });
  };
  if (keys(first) != keys(other))
    return absl::InvalidArgumentError(
        absl::StrCat(other.path, " has the keys ", keys(other), ", but ", first.path, " has ", keys(first)));
  for (const auto& [key, column] : other.columns) {
    const Column& expected = first.columns.at(key);
    if (column.row != expected.row || column.type != expected.type)
      return Bad(other.path, key, absl::StrCat("has other shapes, or another type, than in ", first.path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenTensorFiles(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ExpandPaths(paths));
  const bool npy = absl::EndsWith(files.front(), ".npy");
  std::vector<Part> parts;
  for (const std::string& path : files) {
    if (!absl::EndsWith(path, npy ? ".npy" : ".safetensors"))
      return absl::InvalidArgumentError(absl::StrCat(path, ": files of tensors end in .safetensors, or all in .npy",
                                                     npy ? "; the first one ends in .npy" : ""));
    if (npy) {
      if (parts.empty()) parts.push_back({.path = path});
      RETURN_IF_ERROR(AddNpy(path, parts[0]));
      continue;
    }
    ASSIGN_OR_RETURN(Part part, OpenSafetensors(path));
    if (part.rows == 0) continue;
    if (!parts.empty()) {
      RETURN_IF_ERROR(CheckAlike(parts[0], part));
      part.first = parts.back().first + parts.back().rows;
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty() || parts[0].rows == 0)
    return absl::InvalidArgumentError(absl::StrCat(files.front(), ": no samples"));
  return std::make_shared<const TensorFiles>(std::move(parts));
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/pickle_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format/little_endian.h"

namespace composer {
namespace {

constexpr std::pair<absl::string_view, absl::string_view> kStorageClasses[] = {
    {"F32", "FloatStorage"}, {"F64", "DoubleStorage"}, {"F16", "HalfStorage"},        {"BF16", "BFloat16Storage"},
    {"I64", "LongStorage"},  {"I32", "IntStorage"},    {"I16", "ShortStorage"},       {"I8", "CharStorage"},
    {"U8", "ByteStorage"},   {"BOOL", "BoolStorage"},  {"C64", "ComplexFloatStorage"}};

absl::string_view StorageOf(absl::string_view dtype) {
  for (const auto& [known, storage] : kStorageClasses) {
    if (known == dtype) return storage;
  }
  return "";
}

}  // namespace

void PickleWriter::Int(int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) {
    out_ += "J";
    AppendNumber(static_cast<int32_t>(value), out_);
  } else {
    out_ += "\x8a\x08";
    AppendNumber(value, out_);
  }
}

void PickleWriter::Float(double value) {
  std::string bytes;
  AppendNumber(value, bytes);
  absl::StrAppend(&out_, "G", std::string(bytes.rbegin(), bytes.rend()));
}

void PickleWriter::String(absl::string_view value) {
  out_ += "X";
  AppendNumber(static_cast<uint32_t>(value.size()), out_);
  out_.append(value.data(), value.size());
}

void PickleWriter::Global(absl::string_view module, absl::string_view name) {
  absl::StrAppend(&out_, "c", module, "\n", name, "\n");
}

void PickleWriter::BeginObject(absl::string_view module, absl::string_view name) {
  Global(module, name);
  out_ += ")\x81";
}

void PickleWriter::BeginCall(absl::string_view module, absl::string_view name) {
  Global(module, name);
  out_ += '(';
}

void PickleWriter::Size(absl::Span<const int64_t> shape) {
  BeginCall("torch", "Size");
  BeginTuple();
  for (const int64_t size : shape) Int(size);
  EndTuple();
  EndCall();
}

void PickleWriter::TimeSpan(absl::Duration value) {
  const int64_t micros = absl::ToInt64Microseconds(value);
  BeginCall("datetime", "timedelta");
  Int(0);
  Int(micros / 1'000'000);
  Int(micros % 1'000'000);
  EndCall();
}

absl::Status PickleWriter::Tensor(absl::string_view dtype, absl::Span<const int64_t> shape, int64_t storage) {
  const absl::string_view kind = StorageOf(dtype);
  if (kind.empty()) return absl::InvalidArgumentError(absl::StrCat("torch.save's files have no storage of ", dtype));
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(shape[d], 1);
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  Global("torch._utils", "_rebuild_tensor_v2");
  BeginTuple();
  BeginTuple();
  String("storage");
  Global("torch", kind);
  String(absl::StrCat(storage));
  String("cpu");
  Int(elements);
  EndTuple();
  out_ += 'Q';
  Int(0);
  for (const absl::Span<const int64_t> sizes : {shape, absl::MakeConstSpan(strides)}) {
    BeginTuple();
    for (const int64_t size : sizes) Int(size);
    EndTuple();
  }
  Bool(false);
  Global("collections", "OrderedDict");
  out_ += ")R";
  EndTuple();
  out_ += 'R';
  return absl::OkStatus();
}

std::string PickleWriter::Finish() && {
  out_ += '.';
  return std::move(out_);
}

}  // namespace composer

// This writes pickles (protocol 2) of plain values, and of tensors and time spans as torch.save writes them. It is the
// counterpart of pickle.h. Source: CPython's Lib/pickletools.py; torch/serialization.py. No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace composer {

// Each call appends a value. A Begin and its End enclose what is in between: of a dict keys and values in turn.
class PickleWriter {
 public:
  void None() { out_ += 'N'; }
  void Bool(bool value) { out_ += value ? '\x88' : '\x89'; }
  void Int(int64_t value);
  void Float(double value);
  void String(absl::string_view value);  // valid UTF-8, less than 4 GiB
  void BeginDict() { out_ += "}("; }
  void EndDict() { out_ += 'u'; }
  void BeginList() { out_ += "]("; }
  void EndList() { out_ += 'e'; }
  void BeginTuple() { out_ += '('; }
  void EndTuple() { out_ += 't'; }

  void Entry(absl::string_view key, int64_t value) { String(key), Int(value); }
  void Entry(absl::string_view key, absl::string_view value) { String(key), String(value); }

  // A class or function by its name.
  void Global(absl::string_view module, absl::string_view name);
  // An object of a class: its state, one value, is what is appended before EndObject.
  void BeginObject(absl::string_view module, absl::string_view name);
  void EndObject() { out_ += 'b'; }
  // A call: its arguments are what is appended before EndCall.
  void BeginCall(absl::string_view module, absl::string_view name);
  void EndCall() { out_ += "tR"; }
  // torch.Size
  void Size(absl::Span<const int64_t> shape);

  // Appends datetime.timedelta, to the microsecond.
  void TimeSpan(absl::Duration value);
  // Appends a contiguous tensor that is the whole of the storage in the record `data/{storage}`. `dtype` is
  // safetensors' name. Returns kInvalidArgument if torch.save has no storage of that type.
  absl::Status Tensor(absl::string_view dtype, absl::Span<const int64_t> shape, int64_t storage);

  // Returns the pickle. Exactly one value must have been appended.
  std::string Finish() &&;

 private:
  std::string out_ = "\x80\x02";
};

}  // namespace composer

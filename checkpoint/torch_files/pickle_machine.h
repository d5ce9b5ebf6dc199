// The stack machine for which a pickle is a program (pickle.h). Part of Pickle::Parse: it runs once and makes the
// values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/torch_files/pickle.h"

namespace composer {

class PickleMachine {
 public:
  explicit PickleMachine(absl::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<Pickle> Run();

 private:
  friend struct PickleOpcode;
  using Kind = PickleValue::Kind;
  using Result = absl::Status;

  Result Fail(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("damaged pickle: ", what, " at byte ", position_));
  }
  PickleValue& Value(int index) { return pickle_.values_[static_cast<size_t>(index)]; }

  // These read the bytes.
  Result Take(uint64_t count, absl::string_view* taken);
  Result TakeNumber(int width, uint64_t* number);
  Result TakeLine(absl::string_view* line);

  // These handle the stack. Nothing is popped below the last mark.
  Result Push(PickleValue value);
  Result Pop(int* index);
  Result PopToMark(std::vector<int>* items);
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  // These run the opcodes, by what they do. `a` is the table's argument.
  Result Nothing(int) { return absl::OkStatus(); }
  Result Skip(int a);
  Result Stop(int) { return Pop(&pickle_.root_); }
  Result Mark(int);
  Result PopOne(int);
  Result PopMark(int);
  Result Dup(int);
  Result None(int) { return Push({}); }
  Result Bool(int a) { return Push({.kind = Kind::kBool, .number = a}); }
  Result Int(int a);
  Result Long(int a);
  Result Float(int);
  Result String(int a) { return Text(Kind::kString, a); }
  Result Bytes(int a) { return Text(Kind::kBytes, a); }
  Result Text(Kind kind, int width);
  Result EmptyList(int) { return Push({.kind = Kind::kList}); }
  Result EmptyDict(int) { return Push({.kind = Kind::kDict}); }
  Result EmptySet(int) { return Push({.kind = Kind::kSet}); }
  Result EmptyTuple(int) { return Push({.kind = Kind::kTuple}); }
  Result TupleOf(int a);
  Result TupleOfMark(int) { return OfMark(Kind::kTuple); }
  Result ListOfMark(int) { return OfMark(Kind::kList); }
  Result SetOfMark(int) { return OfMark(Kind::kSet); }
  Result DictOfMark(int) { return OfMark(Kind::kDict); }
  Result OfMark(Kind kind);
  Result Append(int);
  Result Appends(int) { return AddOfMark(Kind::kList); }
  Result AddItems(int) { return AddOfMark(Kind::kSet); }
  Result SetItem(int);
  Result SetItems(int) { return AddOfMark(Kind::kDict); }
  Result AddOfMark(Kind kind);
  Result AddTo(int target, Kind kind, const std::vector<int>& items);
  Result Global(int);
  Result StackGlobal(int);
  Result Call(int a);
  Result Build(int);
  Result Get(int a);
  Result Put(int a);
  Result Memoize(int) { return Remember(memo_.size()); }
  Result Remember(uint64_t key);
  Result Persistent(int);

  absl::string_view bytes_;
  size_t position_ = 0;
  Pickle pickle_;
  std::vector<int> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  absl::flat_hash_map<uint64_t, int> memo_;
};

}  // namespace composer

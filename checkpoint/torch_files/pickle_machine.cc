// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/pickle_machine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace composer {

struct PickleOpcode {
  uint8_t code;
  absl::Status (PickleMachine::*run)(int);
  int argument;

  static const PickleOpcode* Find(uint8_t code);
};

const PickleOpcode* PickleOpcode::Find(uint8_t code) {
  using M = PickleMachine;
  static constexpr PickleOpcode kOpcodes[] = {
      {0x80, &M::Skip, 1},       {0x95, &M::Skip, 8},      {'.', &M::Stop, 0},         {'(', &M::Mark, 0},
      {'0', &M::PopOne, 0},      {'1', &M::PopMark, 0},    {'2', &M::Dup, 0},          {'N', &M::None, 0},
      {0x88, &M::Bool, 1},       {0x89, &M::Bool, 0},      {'J', &M::Int, -4},         {'K', &M::Int, 1},
      {'M', &M::Int, 2},         {0x8a, &M::Long, 1},      {0x8b, &M::Long, 4},        {'G', &M::Float, 0},
      {'X', &M::String, 4},      {0x8c, &M::String, 1},    {0x8d, &M::String, 8},      {'T', &M::String, 4},
      {'U', &M::String, 1},      {'B', &M::Bytes, 4},      {'C', &M::Bytes, 1},        {0x8e, &M::Bytes, 8},
      {0x96, &M::Bytes, 8},      {']', &M::EmptyList, 0},  {'}', &M::EmptyDict, 0},    {0x8f, &M::EmptySet, 0},
      {')', &M::EmptyTuple, 0},  {0x85, &M::TupleOf, 1},   {0x86, &M::TupleOf, 2},     {0x87, &M::TupleOf, 3},
      {'t', &M::TupleOfMark, 0}, {'l', &M::ListOfMark, 0}, {'d', &M::DictOfMark, 0},   {0x91, &M::SetOfMark, 0},
      {'a', &M::Append, 0},      {'e', &M::Appends, 0},    {0x90, &M::AddItems, 0},    {'s', &M::SetItem, 0},
      {'u', &M::SetItems, 0},    {'c', &M::Global, 0},     {0x93, &M::StackGlobal, 0}, {'R', &M::Call, 2},
      {0x81, &M::Call, 2},       {0x92, &M::Call, 3},      {'b', &M::Build, 0},        {'h', &M::Get, 1},
      {'j', &M::Get, 4},         {'q', &M::Put, 1},        {'r', &M::Put, 4},          {0x94, &M::Memoize, 0},
      {'Q', &M::Persistent, 0},
  };
  const auto* found = std::find_if(std::begin(kOpcodes), std::end(kOpcodes),
                                   [code](const PickleOpcode& opcode) { return opcode.code == code; });
  return found == std::end(kOpcodes) ? nullptr : found;
}

absl::StatusOr<Pickle> PickleMachine::Run() {
  if (bytes_.size() < 2 || static_cast<uint8_t>(bytes_[0]) != 0x80) return Fail("it does not start as one");
  if (bytes_[1] < 2 || bytes_[1] > 5) return Fail(absl::StrCat("protocol ", static_cast<int>(bytes_[1])));
  while (position_ < bytes_.size()) {
    const uint8_t code = static_cast<uint8_t>(bytes_[position_++]);
    const PickleOpcode* opcode = PickleOpcode::Find(code);
    if (opcode == nullptr) {
      return absl::UnimplementedError(
          absl::StrFormat("pickle opcode 0x%02x at byte %d is not read", code, position_ - 1));
    }
    RETURN_IF_ERROR((this->*opcode->run)(opcode->argument));
    if (code == '.') return std::move(pickle_);
  }
  return Fail("it ends early");
}

absl::Status PickleMachine::Take(uint64_t count, absl::string_view* taken) {
  if (count > bytes_.size() - position_) return Fail("a value is longer than the pickle");
  *taken = bytes_.substr(position_, static_cast<size_t>(count));
  position_ += static_cast<size_t>(count);
  return absl::OkStatus();
}

absl::Status PickleMachine::TakeNumber(int width, uint64_t* number) {
  absl::string_view taken;
  RETURN_IF_ERROR(Take(static_cast<uint64_t>(width), &taken));
  *number = 0;
  for (size_t i = taken.size(); i-- > 0;) *number = (*number << 8) | static_cast<uint8_t>(taken[i]);
  return absl::OkStatus();
}

absl::Status PickleMachine::TakeLine(absl::string_view* line) {
  const size_t end = bytes_.find('\n', position_);
  if (end == absl::string_view::npos) return Fail("a name without an end");
  *line = bytes_.substr(position_, end - position_);
  position_ = end + 1;
  return absl::OkStatus();
}

absl::Status PickleMachine::Push(PickleValue value) {
  if (pickle_.values_.size() >= kMaxPickleValues) return Fail(absl::StrCat("more than ", kMaxPickleValues, " values"));
  stack_.push_back(static_cast<int>(pickle_.values_.size()));
  pickle_.values_.push_back(std::move(value));
  return absl::OkStatus();
}

absl::Status PickleMachine::Pop(int* index) {
  if (stack_.size() <= Floor()) return Fail("nothing left to take");
  *index = stack_.back();
  stack_.pop_back();
  return absl::OkStatus();
}

absl::Status PickleMachine::PopToMark(std::vector<int>* items) {
  if (marks_.empty()) return Fail("no mark");
  items->assign(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return absl::OkStatus();
}

absl::Status PickleMachine::Skip(int a) {
  absl::string_view skipped;
  return Take(static_cast<uint64_t>(a), &skipped);
}

absl::Status PickleMachine::Mark(int) {
  marks_.push_back(stack_.size());
  return absl::OkStatus();
}

absl::Status PickleMachine::PopOne(int) {
  int unused;
  return Pop(&unused);
}

absl::Status PickleMachine::PopMark(int) {
  std::vector<int> unused;
  return PopToMark(&unused);
}

absl::Status PickleMachine::Dup(int) {
  if (stack_.size() <= Floor()) return Fail("nothing to repeat");
  stack_.push_back(stack_.back());
  return absl::OkStatus();
}

absl::Status PickleMachine::Int(int a) {
  uint64_t number;
  RETURN_IF_ERROR(TakeNumber(std::abs(a), &number));
  const int64_t value = a < 0 ? static_cast<int32_t>(static_cast<uint32_t>(number)) : static_cast<int64_t>(number);
  return Push({.kind = Kind::kInt, .number = value});
}

absl::Status PickleMachine::Long(int a) {
  uint64_t width;
  absl::string_view digits;
  RETURN_IF_ERROR(TakeNumber(a, &width));
  RETURN_IF_ERROR(Take(width, &digits));
  if (digits.size() > 8) return Push({.kind = Kind::kBytes, .text = digits});
  uint64_t number = !digits.empty() && static_cast<int8_t>(digits.back()) < 0 ? ~uint64_t{0} : 0;
  for (size_t i = digits.size(); i-- > 0;) number = (number << 8) | static_cast<uint8_t>(digits[i]);
  return Push({.kind = Kind::kInt, .number = static_cast<int64_t>(number)});
}

absl::Status PickleMachine::Float(int) {
  absl::string_view taken;
  RETURN_IF_ERROR(Take(8, &taken));
  uint64_t bits = 0;  // big-endian, unlike all the rest
  for (const char byte : taken) bits = (bits << 8) | static_cast<uint8_t>(byte);
  return Push({.kind = Kind::kFloat, .real = std::bit_cast<double>(bits)});
}

absl::Status PickleMachine::Text(Kind kind, int width) {
  uint64_t length;
  absl::string_view text;
  RETURN_IF_ERROR(TakeNumber(width, &length));
  RETURN_IF_ERROR(Take(length, &text));
  return Push({.kind = kind, .text = text});
}

absl::Status PickleMachine::TupleOf(int a) {
  PickleValue tuple{.kind = Kind::kTuple, .items = std::vector<int>(static_cast<size_t>(a))};
  for (size_t i = tuple.items.size(); i-- > 0;) RETURN_IF_ERROR(Pop(&tuple.items[i]));
  return Push(std::move(tuple));
}

absl::Status PickleMachine::OfMark(Kind kind) {
  PickleValue value{.kind = kind};
  RETURN_IF_ERROR(PopToMark(&value.items));
  if (kind == Kind::kDict && value.items.size() % 2 != 0) return Fail("a key without a value");
  return Push(std::move(value));
}

absl::Status PickleMachine::AddTo(int target, Kind kind, const std::vector<int>& items) {
  PickleValue& value = Value(target);
  if (kind == Kind::kDict && items.size() % 2 != 0) return Fail("a key without a value");
  if (value.kind == Kind::kCall) return absl::OkStatus();
  if (value.kind != kind) return Fail("items for what has none");
  value.items.insert(value.items.end(), items.begin(), items.end());
  return absl::OkStatus();
}

absl::Status PickleMachine::Append(int) {
  int item;
  RETURN_IF_ERROR(Pop(&item));
  if (stack_.size() <= Floor()) return Fail("no list to append to");
  return AddTo(stack_.back(), Kind::kList, {item});
}

absl::Status PickleMachine::SetItem(int) {
  int key, value;
  RETURN_IF_ERROR(Pop(&value));
  RETURN_IF_ERROR(Pop(&key));
  if (stack_.size() <= Floor()) return Fail("no dict to set an item of");
  return AddTo(stack_.back(), Kind::kDict, {key, value});
}

absl::Status PickleMachine::AddOfMark(Kind kind) {
  std::vector<int> items;
  RETURN_IF_ERROR(PopToMark(&items));
  if (stack_.size() <= Floor()) return Fail("nothing to add items to");
  return AddTo(stack_.back(), kind, items);
}

absl::Status PickleMachine::Global(int) {
  PickleValue global{.kind = Kind::kGlobal};
  RETURN_IF_ERROR(TakeLine(&global.module));
  RETURN_IF_ERROR(TakeLine(&global.text));
  return Push(std::move(global));
}

absl::Status PickleMachine::StackGlobal(int) {
  int name, module;
  RETURN_IF_ERROR(Pop(&name));
  RETURN_IF_ERROR(Pop(&module));
  if (Value(name).kind != Kind::kString || Value(module).kind != Kind::kString) return Fail("a global without a name");
  return Push({.kind = Kind::kGlobal, .text = Value(name).text, .module = Value(module).text});
}

absl::Status PickleMachine::Call(int a) {
  int keywords, arguments, callee;
  if (a == 3) RETURN_IF_ERROR(Pop(&keywords));
  RETURN_IF_ERROR(Pop(&arguments));
  RETURN_IF_ERROR(Pop(&callee));
  if (Value(arguments).kind != Kind::kTuple) return Fail("arguments that are not a tuple");
  if (Value(callee).IsGlobal("collections.OrderedDict") && Value(arguments).items.empty()) return EmptyDict(0);
  return Push({.kind = Kind::kCall, .items = {callee, arguments}});
}

absl::Status PickleMachine::Build(int) {
  int state;
  RETURN_IF_ERROR(Pop(&state));
  if (stack_.size() <= Floor()) return Fail("state for nothing");
  PickleValue& object = Value(stack_.back());
  if (object.kind != Kind::kCall) return absl::OkStatus();
  object.items.resize(2);
  object.items.push_back(state);
  return absl::OkStatus();
}

absl::Status PickleMachine::Get(int a) {
  uint64_t key;
  RETURN_IF_ERROR(TakeNumber(a, &key));
  const auto found = memo_.find(key);
  if (found == memo_.end()) return Fail("a reference to nothing");
  stack_.push_back(found->second);
  return absl::OkStatus();
}

absl::Status PickleMachine::Put(int a) {
  uint64_t key;
  RETURN_IF_ERROR(TakeNumber(a, &key));
  return Remember(key);
}

absl::Status PickleMachine::Remember(uint64_t key) {
  if (stack_.size() <= Floor()) return Fail("nothing to remember");
  memo_[key] = stack_.back();
  return absl::OkStatus();
}

absl::Status PickleMachine::Persistent(int) {
  int id;
  RETURN_IF_ERROR(Pop(&id));
  return Push({.kind = Kind::kPersistent, .items = {id}});
}

}  // namespace composer

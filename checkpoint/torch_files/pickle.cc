// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/pickle.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/torch_files/pickle_machine.h"

namespace composer {

bool PickleValue::IsGlobal(absl::string_view name) const {
  return kind == PickleValue::Kind::kGlobal && name.size() == module.size() + 1 + text.size() &&
         name.substr(0, module.size()) == module && name[module.size()] == '.' &&
         name.substr(module.size() + 1) == text;
}

absl::StatusOr<Pickle> Pickle::Parse(absl::string_view bytes) { return PickleMachine(bytes).Run(); }

std::string ShownText(absl::string_view text) { return absl::CHexEscape(text.substr(0, 200)); }

const PickleValue* Pickle::Find(const PickleValue& dict, absl::string_view key) const {
  if (dict.kind != PickleValue::Kind::kDict) return nullptr;
  for (size_t i = dict.items.size(); i >= 2; i -= 2) {
    const PickleValue& found = at(dict.items[i - 2]);
    if (found.kind == PickleValue::Kind::kString && found.text == key) return &at(dict.items[i - 1]);
  }
  return nullptr;
}

const PickleValue* Pickle::StateOf(const PickleValue& value, absl::string_view name) const {
  if (value.kind != PickleValue::Kind::kCall || value.items.size() != 3) return nullptr;
  const PickleValue& type = at(value.items[0]);
  return type.kind == PickleValue::Kind::kGlobal && type.text == name ? &at(value.items[2]) : nullptr;
}

std::string Pickle::Describe(const PickleValue& value) const {
  constexpr size_t kShown = 100;
  const PickleValue& named = value.kind == PickleValue::Kind::kCall ? at(value.items[0]) : value;
  switch (named.kind) {
    case PickleValue::Kind::kGlobal:
      return absl::StrCat(absl::CHexEscape(named.module.substr(0, kShown)), ".",
                          absl::CHexEscape(named.text.substr(0, kShown)));
    case PickleValue::Kind::kNone:
      return "None";
    case PickleValue::Kind::kBool:
    case PickleValue::Kind::kInt:
    case PickleValue::Kind::kFloat:
      return "a number";
    case PickleValue::Kind::kString:
      return "a text";
    case PickleValue::Kind::kBytes:
      return "bytes";
    case PickleValue::Kind::kList:
      return "a list";
    case PickleValue::Kind::kTuple:
      return "a tuple";
    case PickleValue::Kind::kSet:
      return "a set";
    case PickleValue::Kind::kDict:
      return "a dict";
    case PickleValue::Kind::kCall:
      return "the result of a call";
    case PickleValue::Kind::kPersistent:
      return "a storage";
  }
  return "a value";
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/pickle.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/torch_files/pickle_machine.h"

namespace composer {

using Kind = PickleValue::Kind;

bool PickleValue::IsGlobal(absl::string_view name) const {
  return kind == Kind::kGlobal && name.size() == module.size() + 1 + text.size() &&
         name.substr(0, module.size()) == module && name[module.size()] == '.' &&
         name.substr(module.size() + 1) == text;
}

absl::StatusOr<Pickle> Pickle::Parse(absl::string_view bytes) { return PickleMachine(bytes).Run(); }

std::string ShownText(absl::string_view text) { return absl::CHexEscape(text.substr(0, 200)); }

const PickleValue* Pickle::Find(const PickleValue& dict, absl::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  for (size_t i = dict.items.size(); i >= 2; i -= 2) {
    const PickleValue& found = at(dict.items[i - 2]);
    if (found.kind == Kind::kString && found.text == key) return &at(dict.items[i - 1]);
  }
  return nullptr;
}

const PickleValue* Pickle::StateOf(const PickleValue& value, absl::string_view name) const {
  if (value.kind != Kind::kCall || value.items.size() != 3) return nullptr;
  const PickleValue& type = at(value.items[0]);
  return type.kind == Kind::kGlobal && type.text == name ? &at(value.items[2]) : nullptr;
}

std::string Pickle::Describe(const PickleValue& value) const {
  constexpr size_t kShown = 100;
  const PickleValue& named = value.kind == Kind::kCall ? at(value.items[0]) : value;
  switch (named.kind) {
    case Kind::kGlobal:
      return absl::StrCat(absl::CHexEscape(named.module.substr(0, kShown)), ".",
                          absl::CHexEscape(named.text.substr(0, kShown)));
    case Kind::kNone:
      return "None";
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return "a number";
    case Kind::kString:
      return "a text";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return "a list";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kSet:
      return "a set";
    case Kind::kDict:
      return "a dict";
    case Kind::kCall:
      return "the result of a call";
    case Kind::kPersistent:
      return "a storage";
  }
  return "a value";
}

}  // namespace composer

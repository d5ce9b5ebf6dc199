// What templates do with values: printing, comparing, filters, tests and methods of Python's types, as Jinja 3.1 and
// transformers 4.57 have them. All are pure, and return kInvalidArgument for what is not supported, by its name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/chat/template_syntax.h"

namespace composer {

struct TemplateArguments {
  std::vector<TemplateValue> values;
  std::vector<std::pair<std::string, TemplateValue>> named;
};

inline TemplateValue Undefined() { return TemplateValue(TemplateValue::value_t::discarded); }

bool IsTrue(const TemplateValue& value);
// What {{ value }} prints. Lists and maps are refused: tojson says what is meant.
absl::StatusOr<std::string> TextOf(const TemplateValue& value);
// json.dumps(value, ensure_ascii=False, indent=indent); indent < 0: none.
std::string PythonJsonText(const TemplateValue& value, int indent = -1, int depth = 0);

// text: ==, !=, <, <=, >, >=, in.
absl::StatusOr<TemplateValue> CompareValues(const std::string& sign, const TemplateValue& a, const TemplateValue& b);
// text: +, -, ~, *, /, //, %.
absl::StatusOr<TemplateValue> CombineValues(const std::string& sign, const TemplateValue& a, const TemplateValue& b);
absl::StatusOr<TemplateValue> ItemOf(const TemplateValue& value, const TemplateValue& key);
// null bounds: not given.
absl::StatusOr<TemplateValue> SliceOf(const TemplateValue& value, const TemplateValue& begin, const TemplateValue& end,
                                      const TemplateValue& step);
absl::StatusOr<TemplateValue> ApplyFilter(const std::string& name, const TemplateValue& value,
                                          const TemplateArguments& arguments);
absl::StatusOr<bool> ApplyTest(const std::string& name, const TemplateValue& value, const TemplateArguments& arguments);
absl::StatusOr<TemplateValue> CallMethod(const std::string& name, const TemplateValue& value,
                                         const TemplateArguments& arguments);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "config/value_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "base/time.h"
#include "config/scalar.h"

namespace composer {
namespace {

using Kind = ValueType::Kind;
using Problems = std::vector<std::pair<SourceMark, std::string>>;

template <typename Value>
std::string RangeProblem(Value value, const ValueType& type) {
  const auto number = static_cast<double>(value);
  if (number < type.min) return absl::StrCat("must be at least ", static_cast<Value>(type.min), ", got ", value);
  if (type.above_min && number == type.min) return absl::StrCat("must be more than ", static_cast<Value>(type.min));
  if (number > type.max) return absl::StrCat("must be at most ", static_cast<Value>(type.max), ", got ", value);
  return "";
}

std::string IntProblem(const ConfigNode& value, const ValueType& type) {
  const absl::StatusOr<int64_t> parsed = ParseIntScalar(value);
  return parsed.ok() ? RangeProblem(*parsed, type) : std::string(parsed.status().message());
}

std::string NumberProblem(const ConfigNode& value, const ValueType& type) {
  const absl::StatusOr<double> parsed = ParseDoubleScalar(value);
  return parsed.ok() ? RangeProblem(*parsed, type) : std::string(parsed.status().message());
}

std::string TextProblem(const ConfigNode& value, const ValueType& type) {
  const absl::StatusOr<std::string> parsed = ParseStringScalar(value);
  if (!parsed.ok()) return std::string(parsed.status().message());
  return static_cast<double>(parsed->size()) < type.min ? "must not be empty" : "";
}

std::string ChoiceProblem(const ConfigNode& value, const ValueType& type) {
  if (!value.is_scalar())
    return absl::StrCat("expected one of ", absl::StrJoin(type.words, ", "), ", got ", value.Describe());
  if (std::find(type.words.begin(), type.words.end(), value.scalar) != type.words.end()) return "";
  return absl::StrCat(value.Describe(), " is not one of ", absl::StrJoin(type.words, ", "),
                      DidYouMean(value.scalar, type.words));
}

std::string TimeProblem(const ConfigNode& value, const ValueType& type, TimeUnit bare_unit = TimeUnit::kEpoch) {
  if (!value.is_scalar()) return absl::StrCat("expected a time such as 10ep, 500ba or 1dur, got ", value.Describe());
  const absl::StatusOr<Time> time = ParseTime(value.scalar, bare_unit);
  if (!time.ok()) return std::string(time.status().message());
  if (time->value() < type.min) return absl::StrCat("must not be negative, got ", time->ToString());
  if (type.above_min && time->value() == type.min) return absl::StrCat("must be more than 0, got ", time->ToString());
  const std::string unit(TimeUnitName(time->unit()));
  if (!type.words.empty() && std::find(type.words.begin(), type.words.end(), unit) == type.words.end())
    return absl::StrCat("must be in ", absl::StrJoin(type.words, ", "), ", got ", time->ToString());
  if (time->unit() == TimeUnit::kDuration && time->value() > 1)
    return absl::StrCat("is a share of the run, at most 1dur, got ", time->ToString());
  return "";
}

std::string IntervalProblem(const ConfigNode& value) {
  const std::string problem = TimeProblem(value, {}, TimeUnit::kBatch);
  if (!problem.empty()) return problem;
  const Time time = *ParseTime(value.scalar, TimeUnit::kBatch);
  const bool counted = time.unit() == TimeUnit::kBatch || time.unit() == TimeUnit::kEpoch;
  if (counted && time.count() >= 1) return "";
  return absl::StrCat("must be at least one batch (ba) or epoch (ep), got ", time.ToString());
}

template <typename Check>
Problems ListProblems(const ConfigNode& value, absl::string_view what, bool one_is_a_list, const Check& check) {
  Problems problems;
  const auto add = [&](const ConfigNode& item) {
    if (std::string problem = check(item); !problem.empty()) problems.emplace_back(item.mark, std::move(problem));
  };
  if (value.is_list()) {
    for (const ConfigNode& item : value.children) add(item);
  } else if (value.is_scalar() && one_is_a_list) {
    add(value);
  } else {
    problems.emplace_back(value.mark, absl::StrCat("expected a list of ", what, ", got ", value.Describe()));
  }
  return problems;
}

Problems ProblemsOfType(const ConfigNode& value, const ValueType& type) {
  const auto one = [&](std::string problem) {
    return problem.empty() ? Problems() : Problems{{value.mark, std::move(problem)}};
  };
  const auto expected = [&](bool is_so, absl::string_view what) {
    return one(is_so ? "" : absl::StrCat("expected ", what, ", got ", value.Describe()));
  };
  switch (type.kind) {
    case Kind::kAny:
      return {};
    case Kind::kBool:
      return one(std::string(ParseBoolScalar(value).status().message()));
    case Kind::kText:
      return one(TextProblem(value, type));
    case Kind::kChoice:
      return one(ChoiceProblem(value, type));
    case Kind::kInt:
      return one(IntProblem(value, type));
    case Kind::kNumber:
      return one(NumberProblem(value, type));
    case Kind::kTime:
      return one(TimeProblem(value, type));
    case Kind::kInterval:
      return one(IntervalProblem(value));
    case Kind::kInts:
      return ListProblems(value, "numbers", false, [&](const ConfigNode& item) { return IntProblem(item, type); });
    case Kind::kNumbers:
      return ListProblems(value, "numbers", false, [&](const ConfigNode& item) { return NumberProblem(item, type); });
    case Kind::kTexts:
      return ListProblems(value, "texts", true, [&](const ConfigNode& item) { return TextProblem(item, type); });
    case Kind::kTimes:
      return ListProblems(value, "times", true, [&](const ConfigNode& item) { return TimeProblem(item, type); });
    case Kind::kMap:
    case Kind::kNamed:
      return expected(value.is_map(), "a map");
    case Kind::kMapList:
    case Kind::kNamedList:
      return expected(value.is_map() || value.is_list(), "a list of maps");
    case Kind::kNames:
      return expected(value.is_map() || value.is_list(), "a map of names, or a list of them");
  }
  return {};
}

}  // namespace

const ValueType* TypeOf(const ConfigNode& value, const std::vector<ValueType>& types) {
  for (const ValueType& type : types) {
    if (ProblemsOfType(value, type).empty()) return &type;
  }
  return nullptr;
}

std::vector<std::pair<SourceMark, std::string>> ValueProblems(const ConfigNode& value,
                                                              const std::vector<ValueType>& types) {
  if (TypeOf(value, types) != nullptr) return {};
  if (types.size() == 1) return ProblemsOfType(value, types[0]);
  std::vector<std::string> reasons;
  for (const ValueType& type : types) {
    for (auto& [mark, problem] : ProblemsOfType(value, type)) reasons.push_back(std::move(problem));
  }
  return {{value.mark, absl::StrJoin(reasons, "; or ")}};
}

}  // namespace composer

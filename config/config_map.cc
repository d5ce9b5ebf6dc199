// SPDX-License-Identifier: Apache-2.0
#include "config/config_map.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"
#include "config/renamed_keys.h"
#include "config/scalar.h"

namespace composer {
namespace {

// Returns the value; when there is none, adds the error and returns the fallback.
template <typename T, typename Fail>
T ValueOr(const absl::StatusOr<T>& value, T fallback, const Fail& fail) {
  if (value.ok()) return *value;
  fail(value.status().message());
  return fallback;
}

template <typename Range, typename T>
std::string OutOfRange(const Range& range, T value) {
  if (value < range.min) return absl::StrCat("must be at least ", range.min, ", got ", value);
  if (value > range.max) return absl::StrCat("must be at most ", range.max, ", got ", value);
  return "";
}

}  // namespace

ConfigMap ConfigReader::root() {
  MakeKnown(document_, "variables");
  return ConfigMap(this, &document_, "", document_.mark);
}

absl::Status ConfigReader::status() const {
  if (errors_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
}

absl::Status ConfigReader::Finish() {
  RejectUnknown(document_, "");
  return status();
}

void ConfigReader::Fail(const SourceMark& mark, absl::string_view path, absl::string_view message) {
  std::string error = absl::StrCat(mark.ToString(), ": ", path, ": ", message);
  // An error in a value that several parts of the program read is reported once.
  if (std::find(errors_.begin(), errors_.end(), error) == errors_.end()) errors_.push_back(std::move(error));
}

// Skips maps that nobody opened: they are either unknown themselves or were read as a whole.
void ConfigReader::RejectUnknown(const ConfigNode& node, const std::string& path) {
  const auto asked = asked_.find(&node);
  for (const ConfigNode& child : node.children) {
    const std::string name = node.is_map() ? child.key : absl::StrCat(&child - node.children.data());
    const std::string child_path = path.empty() ? name : absl::StrCat(path, ".", name);
    if (asked == asked_.end() || asked->second.count(name) > 0) {
      RejectUnknown(child, child_path);
      continue;
    }
    const std::string advice = RenamedKeyAdvice(child_path);
    const std::vector<std::string> known(asked->second.begin(), asked->second.end());
    const std::string hint = advice.empty() ? DidYouMean(name, known) : absl::StrCat("; ", advice);
    Fail(child.key_mark, child_path, absl::StrCat("unknown key", hint));
  }
}

namespace {

std::string AsYaml(int64_t value) { return absl::StrCat(value); }
std::string AsYaml(double value) { return absl::StrFormat("%.17g", value); }
std::string AsYaml(absl::string_view value) { return std::string(value); }
template <typename T>
std::string AsYaml(const std::vector<T>& values) {
  return absl::StrCat(
      "[", absl::StrJoin(values, ", ", [](std::string* out, const T& value) { out->append(AsYaml(value)); }), "]");
}

}  // namespace

template <typename Value, typename Range>
void ConfigMap::Note(absl::string_view key, absl::string_view type, const Value& fallback, const Range& range) const {
  if (!reader_->records()) return;
  reader_->Note({path_,
                 std::string(key),
                 std::string(type),
                 AsYaml(fallback),
                 static_cast<double>(range.min),
                 static_cast<double>(range.max),
                 {}});
}

bool ConfigMap::Has(absl::string_view key) const {
  if (reader_->records()) reader_->Note({path_, std::string(key)});
  if (node_ == nullptr) return false;
  reader_->MakeKnown(*node_, key);
  const ConfigNode* value = node_->Find(key);
  return value != nullptr && !value->is_null();
}

const ConfigNode* ConfigMap::Ask(absl::string_view key) { return Has(key) ? node_->Find(key) : nullptr; }

std::string ConfigMap::ChildPath(absl::string_view key) const {
  if (key.empty()) return path_;
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
}

ConfigMap ConfigMap::Child(const ConfigNode* node, std::string path) const {
  if (node != nullptr) reader_->Open(*node);
  return ConfigMap(reader_, node, std::move(path), node == nullptr ? mark_ : node->mark);
}

void ConfigMap::Missing(absl::string_view key) { reader_->Fail(mark_, ChildPath(key), "is required"); }

void ConfigMap::Reject(absl::string_view key, absl::string_view message) {
  const ConfigNode* value = node_ == nullptr ? nullptr : node_->Find(key);
  reader_->Fail(value == nullptr ? mark_ : value->mark, ChildPath(key), message);
}

void ConfigMap::IgnoreRest() {
  if (node_ == nullptr) return;
  for (const std::string& key : node_->Keys()) reader_->MakeKnown(*node_, key);
}

std::string ConfigMap::String(absl::string_view key) {
  if (!Has(key)) Missing(key);
  return String(key, "");
}

std::string ConfigMap::String(absl::string_view key, absl::string_view fallback) {
  Note(key, "text", fallback, DoubleRange{});
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return std::string(fallback);
  return ValueOr(ParseStringScalar(*value), std::string(fallback), [&](auto message) { Reject(key, message); });
}

bool ConfigMap::Is(absl::string_view key, absl::string_view word) {
  const ConfigNode* value = Ask(key);
  return value != nullptr && value->kind == ConfigNode::Kind::kScalar && value->scalar == word;
}

int64_t ConfigMap::Int(absl::string_view key, int64_t fallback, IntRange range) {
  Note(key, "int", fallback, range);
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return fallback;
  const absl::StatusOr<int64_t> parsed = ParseIntScalar(*value);
  const std::string problem = parsed.ok() ? OutOfRange(range, *parsed) : std::string(parsed.status().message());
  if (problem.empty()) return *parsed;
  Reject(key, problem);
  return fallback;
}

int64_t ConfigMap::RequiredInt(absl::string_view key, IntRange range) {
  if (!Has(key)) Missing(key);
  return Int(key, 0, range);
}

double ConfigMap::Double(absl::string_view key, double fallback, DoubleRange range) {
  Note(key, "number", fallback, range);
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return fallback;
  const absl::StatusOr<double> parsed = ParseDoubleScalar(*value);
  const std::string problem = parsed.ok() ? OutOfRange(range, *parsed) : std::string(parsed.status().message());
  if (problem.empty()) return *parsed;
  Reject(key, problem);
  return fallback;
}

double ConfigMap::RequiredDouble(absl::string_view key, DoubleRange range) {
  if (!Has(key)) Missing(key);
  return Double(key, 0, range);
}

bool ConfigMap::Bool(absl::string_view key, bool fallback) {
  Note(key, "bool", absl::string_view(fallback ? "true" : "false"), DoubleRange{});
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return fallback;
  return ValueOr(ParseBoolScalar(*value), fallback, [&](auto message) { Reject(key, message); });
}

std::string ConfigMap::Time(absl::string_view key, absl::string_view fallback) {
  Note(key, "time", fallback, DoubleRange{});
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_scalar()) return value->scalar;
  Reject(key, absl::StrCat("expected a time such as 10ep, 500ba or 1dur, got ", value->Describe()));
  return std::string(fallback);
}

std::string ConfigMap::Choice(absl::string_view key, absl::Span<const absl::string_view> allowed,
                              absl::string_view fallback) {
  const std::string value = String(key, fallback);
  const std::vector<std::string> names(allowed.begin(), allowed.end());
  if (reader_->records()) reader_->Note({path_, std::string(key), "choice", std::string(fallback), 0, 0, names});
  for (const std::string& name : names) {
    if (value == name) return value;
  }
  if (value == fallback) return value;
  const ConfigNode* node = node_ == nullptr ? nullptr : node_->Find(key);
  Reject(key, absl::StrCat(node == nullptr ? value : node->Describe(), " is not one of ", absl::StrJoin(names, ", "),
                           DidYouMean(value, names)));
  return std::string(fallback);
}

template <typename T, typename Range, typename Parse>
std::vector<T> ConfigMap::NumberList(absl::string_view key, std::vector<T> fallback, const Range& range, Parse parse) {
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return fallback;
  if (!value->is_list()) {
    Reject(key, absl::StrCat("expected a list of numbers, got ", value->Describe()));
    return fallback;
  }
  std::vector<T> result;
  for (const ConfigNode& item : value->children) {
    const absl::StatusOr<T> parsed = parse(item);
    const std::string problem = parsed.ok() ? OutOfRange(range, *parsed) : std::string(parsed.status().message());
    if (!problem.empty()) {
      reader_->Fail(item.mark, ChildPath(key), problem);
    } else {
      result.push_back(*parsed);
    }
  }
  return result;
}

std::vector<int64_t> ConfigMap::IntList(absl::string_view key, std::vector<int64_t> fallback, IntRange range) {
  Note(key, "ints", fallback, range);
  return NumberList(key, std::move(fallback), range, ParseIntScalar);
}

std::vector<double> ConfigMap::DoubleList(absl::string_view key, std::vector<double> fallback, DoubleRange range) {
  Note(key, "numbers", fallback, range);
  return NumberList(key, std::move(fallback), range, ParseDoubleScalar);
}

std::vector<std::string> ConfigMap::StringList(absl::string_view key, std::vector<std::string> fallback) {
  Note(key, "texts", fallback, DoubleRange{});
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return fallback;
  if (value->is_scalar()) return {value->scalar};
  std::vector<std::string> result;
  if (value->is_map()) Reject(key, absl::StrCat("expected a list of texts, got ", value->Describe()));
  if (!value->is_list()) return fallback;
  for (const ConfigNode& item : value->children) {
    if (!item.is_scalar())
      reader_->Fail(item.mark, ChildPath(key), absl::StrCat("expected a text, got ", item.Describe()));
    result.push_back(item.scalar);
  }
  return result;
}

ConfigMap ConfigMap::Map(absl::string_view key) {
  const ConfigNode* value = Ask(key);
  if (value != nullptr && !value->is_map()) {
    Reject(key, absl::StrCat("expected a map, got ", value->Describe()));
    value = nullptr;
  }
  return Child(value, ChildPath(key));
}

std::vector<ConfigMap> ConfigMap::MapList(absl::string_view key) {
  const ConfigNode* value = Ask(key);
  if (value == nullptr) return {};
  if (value->is_map()) return {Child(value, ChildPath(key))};
  std::vector<ConfigMap> result;
  if (!value->is_list()) Reject(key, absl::StrCat("expected a list of maps, got ", value->Describe()));
  for (const ConfigNode& item : value->children) {
    const std::string item_path = absl::StrCat(ChildPath(key), ".", &item - value->children.data());
    if (item.is_map()) {
      result.push_back(Child(&item, item_path));
    } else {
      reader_->Fail(item.mark, item_path, absl::StrCat("expected a map, got ", item.Describe()));
    }
  }
  return result;
}

std::vector<ConfigMap::Named> ConfigMap::NamedMaps(absl::string_view key) {
  const ConfigNode* value = Ask(key);
  if (value != nullptr && value->is_list()) return NamedMapsOfList(*value, ChildPath(key));
  return Map(key).Entries();
}

std::vector<ConfigMap::Named> ConfigMap::NamedMapsOfList(const ConfigNode& list, const std::string& path) const {
  std::vector<Named> result;
  for (const ConfigNode& item : list.children) {
    const std::string item_path = absl::StrCat(path, ".", &item - list.children.data());
    if (item.is_scalar()) {
      result.push_back({item.scalar, ConfigMap(reader_, nullptr, item_path, item.mark)});
    } else if (item.is_map()) {
      for (Named& entry : Child(&item, item_path).Entries()) result.push_back(std::move(entry));
    } else {
      reader_->Fail(item.mark, item_path, absl::StrCat("expected a name or a map, got ", item.Describe()));
    }
  }
  return result;
}

std::vector<ConfigMap::Named> ConfigMap::Entries() {
  std::vector<Named> result;
  if (node_ == nullptr) return result;
  for (const ConfigNode& child : node_->children) {
    result.push_back({child.key, Map(child.key)});
    result.back().map.mark_ = child.mark;  // an entry without a value also gets its mark
  }
  return result;
}

}  // namespace composer

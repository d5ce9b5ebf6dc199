// SPDX-License-Identifier: Apache-2.0
#include "config/effective_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "config/value_check.h"
#include "config/yaml.h"

namespace composer {
namespace {

using Kind = ValueType::Kind;

void MarkAsDefault(ConfigNode& node) {
  node.mark = node.key_mark = SourceMark{kDefaultSource};
  for (ConfigNode& child : node.children) MarkAsDefault(child);
}

class Filler {
 public:
  Filler(const ConfigNode& top, const Schema& schema) : top_(top), schema_(schema) {}

  void FillMap(const KeySection& section, ConfigNode& map) const {
    for (const KeyRow& row : section.rows) {
      ConfigNode* value = map.Find(row.key);
      if (value == nullptr || (value->is_null() && value->written.empty())) {
        const absl::StatusOr<ConfigNode> fallback = ParseYamlValue(FallbackOf(row), kDefaultSource);
        if (!fallback.ok() || fallback->is_null()) continue;
        if (value == nullptr) {
          value = &map.children.emplace_back();
          value->key = row.key;
        }
        value->AssignValue(*fallback);
        MarkAsDefault(*value);
      }
      if (const ValueType* type = TypeOf(*value, row.types)) FillValue(*type, *value);
    }
  }

 private:
  std::string FallbackOf(const KeyRow& row) const {
    for (const KeyRow::Otherwise& otherwise : row.otherwise) {
      const ConfigNode* node = top_.Find(otherwise.key);
      if (node != nullptr && node->is_scalar() && node->scalar == otherwise.value) return otherwise.fallback;
    }
    return row.fallback;
  }

  void FillSection(absl::string_view kind, absl::string_view name, ConfigNode& map) const {
    const KeySection* section = schema_.Find(kind, name);
    if (section != nullptr && map.is_map()) FillMap(*section, map);
  }

  void FillNamed(const ValueType& type, ConfigNode& map) const {
    const ConfigNode* name = map.Find("name");
    if (name == nullptr || !name->is_scalar()) return;
    const std::string chosen = name->scalar;  // a copy, since `name` moves when the map grows
    FillSection(type.section, chosen, map);
    FillSection("map", type.with, map);
  }

  // Fills an entry of callbacks and the like: a key of a map, or a bare name in a list.
  void FillEntry(const ValueType& type, ConfigNode& entry) const {
    if (entry.is_null()) entry.kind = ConfigNode::Kind::kMap;
    FillSection(type.section, entry.key, entry);
  }

  void FillNames(const ValueType& type, ConfigNode& value) const {
    if (value.is_map()) {
      for (ConfigNode& entry : value.children) FillEntry(type, entry);
      return;
    }
    for (ConfigNode& item : value.children) {
      if (item.is_scalar()) {
        ConfigNode entry;
        entry.key = item.scalar;
        entry.mark = entry.key_mark = item.mark;
        item.kind = ConfigNode::Kind::kMap;
        item.scalar.clear();
        item.children = {entry};
      }
      for (ConfigNode& entry : item.children) FillEntry(type, entry);
    }
  }

  void FillValue(const ValueType& type, ConfigNode& value) const {
    const auto each = [&](const auto& fill) {
      if (value.is_map()) fill(value);
      if (!value.is_list()) return;
      for (ConfigNode& item : value.children) fill(item);
    };
    if (type.kind == Kind::kMap) FillSection("map", type.section, value);
    if (type.kind == Kind::kNamed) FillNamed(type, value);
    if (type.kind == Kind::kMapList) each([&](ConfigNode& item) { FillSection("map", type.section, item); });
    if (type.kind == Kind::kNamedList) each([&](ConfigNode& item) { FillNamed(type, item); });
    if (type.kind == Kind::kNames) FillNames(type, value);
  }

  const ConfigNode& top_;
  const Schema& schema_;
};

bool IsPlain(const ConfigNode& node) { return node.is_scalar() || node.is_null(); }

std::string ShownOf(const ConfigNode& node) {
  if (node.is_null()) return node.written.empty() ? "null" : node.written;
  return node.quoted && node.scalar.empty() ? "''" : node.shown();
}

void List(const ConfigNode& node, const std::string& path, std::vector<Setting>& settings) {
  const auto add = [&](std::string value) { settings.push_back({path, std::move(value), node.mark.ToString()}); };
  if (IsPlain(node)) return add(ShownOf(node));
  if (node.is_list() && std::all_of(node.children.begin(), node.children.end(), IsPlain)) {
    return add(absl::StrCat(
        "[",
        absl::StrJoin(node.children, ", ",
                      [](std::string* out, const ConfigNode& item) { absl::StrAppend(out, ShownOf(item)); }),
        "]"));
  }
  if (node.children.empty()) return add("{}");
  for (size_t i = 0; i < node.children.size(); ++i) {
    const ConfigNode& child = node.children[i];
    const std::string name = node.is_map() ? child.key : absl::StrCat(i);
    List(child, path.empty() ? name : absl::StrCat(path, ".", name), settings);
  }
}

}  // namespace

ConfigNode EffectiveConfig(const ConfigNode& document, const Schema& schema) {
  ConfigNode effective = document;
  if (const KeySection* job = schema.Find("map", "job")) Filler(document, schema).FillMap(*job, effective);
  return effective;
}

std::vector<Setting> ListSettings(const ConfigNode& root) {
  std::vector<Setting> settings;
  List(root, "", settings);
  return settings;
}

bool IsSecretKey(absl::string_view key) {
  const std::string name = absl::AsciiStrToLower(key);
  // Matches whole words of the key, so that max_tokens and tokenizer are not secrets.
  for (const char* word : {"token", "key", "secret", "password"}) {
    if (name == word || absl::EndsWith(name, absl::StrCat("_", word))) return true;
  }
  return false;
}

}  // namespace composer

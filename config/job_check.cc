// SPDX-License-Identifier: Apache-2.0
#include "config/job_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "config/effective_config.h"
#include "config/missing_keys.h"
#include "config/name_advice.h"
#include "config/scalar.h"
#include "config/value_check.h"

namespace composer {
namespace {

using Kind = ValueType::Kind;

std::string Below(const std::string& path, absl::string_view key) {
  return path.empty() ? std::string(key) : absl::StrCat(path, ".", key);
}

class Checker {
 public:
  Checker(const ConfigNode& document, const JobCheck& check, ConfigReader& reader)
      : document_(document), check_(check), reader_(reader) {}

  // Checks the keys of a map against those of some sections, any of which may be null.
  void CheckMap(const ConfigNode& map, const std::string& path, const std::vector<const KeySection*>& sections,
                std::vector<std::string> more_keys = {}) {
    for (const ConfigNode& child : map.children) {
      if (std::find(more_keys.begin(), more_keys.end(), child.key) != more_keys.end()) continue;
      const KeyRow* row = FindRow(sections, child.key);
      if (row != nullptr) {
        if (!child.is_null()) CheckValue(child, Below(path, child.key), *row);
        continue;
      }
      std::vector<std::string> known = more_keys;
      for (const KeySection* section : sections)
        for (const KeyRow& candidate : section->rows) known.push_back(candidate.key);
      reader_.Fail(child.key_mark, Below(path, child.key),
                   UnknownKey(Below(path, child.key), child.key, known, document_, check_.schema));
    }
    for (const KeySection* section : sections) CheckSection(map, path, *section);
  }

 private:
  static const KeyRow* FindRow(const std::vector<const KeySection*>& sections, absl::string_view key) {
    for (const KeySection* section : sections) {
      if (const KeyRow* row = section->Find(key)) return row;
    }
    return nullptr;
  }

  void CheckSection(const ConfigNode& map, const std::string& path, const KeySection& section) {
    for (const KeyRow& row : section.rows) {
      const bool of_training = path.empty() && (row.key == "train_dataloader" || row.key == "max_duration");
      if (row.required && (check_.trains || !of_training) && !IsGiven(map.Find(row.key)))
        reader_.Fail(map.mark, Below(path, row.key), absl::StrCat("is required: ", row.meaning));
    }
    for (const KeyRule& rule : section.rules) CheckRule(map, path, section, rule);
  }

  void CheckRule(const ConfigNode& map, const std::string& path, const KeySection& section, const KeyRule& rule) {
    if (rule.kind == KeyRule::Kind::kDivides) return CheckDivides(map, path, section, rule.keys);
    std::vector<const ConfigNode*> given;
    for (const std::string& key : rule.keys) {
      if (IsGiven(map.Find(key))) given.push_back(map.Find(key));
    }
    if (given.size() > 1) {
      reader_.Fail(given[1]->mark, Below(path, given[1]->key),
                   absl::StrCat("`", given[0]->key, "` is given, too; write one of them"));
    }
  }

  void CheckDivides(const ConfigNode& map, const std::string& path, const KeySection& section,
                    const std::vector<std::string>& keys) {
    int64_t values[2] = {0, 0};
    const ConfigNode* place = &map;
    for (int i = 0; i < 2; ++i) {
      const KeyRow* row = section.Find(keys[i]);
      const ConfigNode* node = map.Find(keys[i]);
      ConfigNode fallback;
      fallback.kind = ConfigNode::Kind::kScalar;
      fallback.scalar = row == nullptr ? "" : row->fallback;
      if (IsGiven(node) && place == &map) place = node;
      const absl::StatusOr<int64_t> value = ParseIntScalar(IsGiven(node) ? *node : fallback);
      if (!value.ok() || *value < 1) return;  // this is reported elsewhere
      values[i] = *value;
    }
    if (values[1] % values[0] != 0) {
      const std::string at = place == &map ? keys[0] : place->key;
      reader_.Fail(place->mark, Below(path, at),
                   absl::StrCat(keys[0], " (", values[0], ") must divide ", keys[1], " (", values[1], ")"));
    }
  }

  void CheckValue(const ConfigNode& value, const std::string& path, const KeyRow& row) {
    const auto problems = ValueProblems(value, row.types);
    for (const auto& [mark, problem] : problems) {
      const std::string reason = value.is_scalar() ? MissingChoiceReason(path, value.scalar) : "";
      reader_.Fail(mark, path, reason.empty() ? problem : absl::StrCat(value.Describe(), ": ", reason));
    }
    if (!problems.empty()) return;
    const ValueType& type = *TypeOf(value, row.types);
    switch (type.kind) {
      case Kind::kMap:
        if (const KeySection* section = check_.schema.Find("map", type.section)) CheckMap(value, path, {section});
        return;
      case Kind::kNamed:
        return CheckNamed(value, path, type);
      case Kind::kMapList:
      case Kind::kNamedList:
        return ForEachMap(value, path, [&](const ConfigNode& item, const std::string& at) {
          if (type.kind == Kind::kNamedList) return CheckNamed(item, at, type);
          if (const KeySection* section = check_.schema.Find("map", type.section)) CheckMap(item, at, {section});
        });
      case Kind::kNames:
        return CheckNames(value, path, type);
      default:
        return;
    }
  }

  template <typename Visit>
  void ForEachMap(const ConfigNode& value, const std::string& path, const Visit& visit) {
    if (value.is_map()) return visit(value, path);
    for (size_t i = 0; i < value.children.size(); ++i) {
      const ConfigNode& item = value.children[i];
      const std::string at = absl::StrCat(path, ".", i);
      if (item.is_map()) {
        visit(item, at);
      } else {
        reader_.Fail(item.mark, at, absl::StrCat("expected a map, got ", item.Describe()));
      }
    }
  }

  void CheckNamed(const ConfigNode& value, const std::string& path, const ValueType& type) {
    const ConfigNode* name = value.Find("name");
    if (!IsGiven(name)) {
      const std::vector<std::string> names = check_.schema.Names(type.section);
      reader_.Fail(value.mark, Below(path, "name"),
                   absl::StrCat("is required: which ", type.section, names.empty() ? "" : ", such as ",
                                names.empty() ? "" : names.front()));
    } else if (!name->is_scalar()) {
      reader_.Fail(name->mark, Below(path, "name"), absl::StrCat("expected a text, got ", name->Describe()));
    } else if (const KeySection* section = check_.schema.Find(type.section, name->scalar)) {
      std::vector<const KeySection*> sections = {section};
      if (const KeySection* with = check_.schema.Find("map", type.with)) sections.insert(sections.begin(), with);
      CheckMap(value, path, sections, {"name"});
    } else if (!check_.open_names) {
      reader_.Fail(name->mark, Below(path, "name"),
                   UnknownNameOfKind(type.section, name->scalar, check_.schema.Names(type.section)));
    }
  }

  void CheckEntry(absl::string_view name, const ConfigNode& place, const ConfigNode* keys, const std::string& path,
                  const ValueType& type) {
    const KeySection* section = check_.schema.Find(type.section, name);
    if (section == nullptr) {
      if (!check_.open_names)
        reader_.Fail(place.mark, path, UnknownNameOfKind(type.section, name, check_.schema.Names(type.section)));
      return;
    }
    ConfigNode empty;
    empty.kind = ConfigNode::Kind::kMap;
    empty.mark = place.mark;
    if (keys != nullptr && !keys->is_map() && !keys->is_null()) {
      reader_.Fail(keys->mark, path, absl::StrCat("expected a map, got ", keys->Describe()));
    } else {
      CheckMap(IsGiven(keys) ? *keys : empty, path, {section});
    }
  }

  void CheckNames(const ConfigNode& value, const std::string& path, const ValueType& type) {
    const auto entries = [&](const ConfigNode& map, const std::string& at) {
      for (const ConfigNode& entry : map.children) CheckEntry(entry.key, entry, &entry, Below(at, entry.key), type);
    };
    if (value.is_map()) return entries(value, path);
    for (size_t i = 0; i < value.children.size(); ++i) {
      const ConfigNode& item = value.children[i];
      const std::string at = absl::StrCat(path, ".", i);
      if (item.is_map()) {
        entries(item, at);
      } else if (item.is_scalar()) {
        CheckEntry(item.scalar, item, nullptr, at, type);
      } else {
        reader_.Fail(item.mark, at, absl::StrCat("expected a name or a map, got ", item.Describe()));
      }
    }
  }

  const ConfigNode& document_;
  const JobCheck& check_;
  ConfigReader& reader_;
};

}  // namespace

absl::Status CheckJob(const ConfigNode& document, const JobCheck& check) {
  ConfigReader reader(document);
  Checker(document, check, reader).CheckMap(document, "", {check.schema.Find("map", "job")});
  CheckJobRules(document, check, reader);
  return reader.status();
}

absl::Status WithPlace(const ConfigNode& effective, const absl::Status& status) {
  const absl::string_view message = status.message();
  const absl::string_view path = message.substr(0, message.find(": "));
  const ConfigNode* node = &effective;
  SourceMark place = effective.mark;
  bool found = false;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    node = node->FindPath(part);
    if (node == nullptr) break;
    found = true;
    if (node->mark.source != kDefaultSource && !node->mark.source.empty()) place = node->mark;
  }
  if (!found || place.source.empty() || path.size() == message.size()) return status;
  return absl::Status(status.code(), absl::StrCat(place.ToString(), ": ", message));
}

}  // namespace composer

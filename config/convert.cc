// SPDX-License-Identifier: Apache-2.0
#include "config/convert.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "config/document.h"
#include "config/foreign_names.h"
#include "config/interpolation.h"
#include "config/job_check.h"
#include "config/missing_keys.h"
#include "config/name_advice.h"
#include "config/value_check.h"
#include "config/yaml.h"

namespace composer {
namespace {

using Kind = ValueType::Kind;

bool RefersToOthers(const ConfigNode& node) {
  if (node.is_scalar()) return absl::StrContains(node.scalar, "${");
  return std::any_of(node.children.begin(), node.children.end(), RefersToOthers);
}

// Takes out of a document what the schema does not know.
class Sieve {
 public:
  Sieve(const ConfigNode& document, const Schema& schema) : document_(document), schema_(schema) {}

  void Map(ConfigNode& map, const std::string& path, const std::vector<const KeySection*>& sections,
           absl::string_view also = "") {
    std::erase_if(map.children, [&](ConfigNode& child) {
      if (child.key == also) return false;
      const std::string at = path.empty() ? child.key : absl::StrCat(path, ".", child.key);
      for (const KeySection* section : sections) {
        if (const KeyRow* row = section->Find(child.key)) return !Keeps(child, at, *row);
      }
      std::vector<std::string> known;
      for (const KeySection* section : sections) {
        for (const KeyRow& row : section->rows) known.push_back(row.key);
      }
      return LeaveOut(at, UnknownKey(at, child.key, known, document_, schema_));
    });
  }

  std::vector<std::string> left_out;

 private:
  bool LeaveOut(const std::string& path, absl::string_view why) {
    std::string line = absl::StrCat(path.substr(0, 200), ": ", why);
    std::replace_if(line.begin(), line.end(), absl::ascii_iscntrl, ' ');
    left_out.push_back(std::move(line));
    return true;
  }

  // Returns whether the value stays.
  bool Keeps(ConfigNode& value, const std::string& path, const KeyRow& row) {
    if (value.is_null()) return true;
    const auto problems = ValueProblems(value, row.types);
    if (!problems.empty()) {
      if (RefersToOthers(value) || row.required) return true;
      const std::string reason = value.is_scalar() ? MissingChoiceReason(path, value.scalar) : "";
      return !LeaveOut(path, reason.empty() ? problems[0].second : reason);
    }
    const ValueType& type = *TypeOf(value, row.types);
    const KeySection* section = schema_.Find("map", type.section);
    if (type.kind == Kind::kMap && section != nullptr) Map(value, path, {section});
    if (type.kind == Kind::kNamed || type.kind == Kind::kNamedList) return KeepsNamed(value, path, row, type);
    if (type.kind == Kind::kNames) KeepEntries(value, path, type);
    return true;
  }

  bool KeepsNamed(ConfigNode& value, const std::string& path, const KeyRow& row, const ValueType& type) {
    if (value.is_list()) {
      for (size_t i = 0; i < value.children.size(); ++i) {
        KeepsNamed(value.children[i], absl::StrCat(path, ".", i), row, type);
      }
      return true;
    }
    const ConfigNode* name = value.Find("name");
    if (name == nullptr || !name->is_scalar()) return true;
    const KeySection* section = schema_.Find(type.section, name->scalar);
    if (section == nullptr) {
      // Something else must be chosen where one is needed, or would be taken silently: the checks say so.
      if (row.required || !row.fallback.empty()) return true;
      return !LeaveOut(path, UnknownNameOfKind(type.section, name->scalar, schema_.Names(type.section)));
    }
    std::vector<const KeySection*> sections = {section};
    if (const KeySection* with = schema_.Find("map", type.with)) sections.insert(sections.begin(), with);
    Map(value, path, sections, "name");
    return true;
  }

  void KeepEntries(ConfigNode& value, const std::string& path, const ValueType& type) {
    const auto leaves = [&](ConfigNode& entry, const std::string& name) {
      const std::string at = absl::StrCat(path, ".", name);
      const KeySection* section = schema_.Find(type.section, name);
      if (section == nullptr) return LeaveOut(at, UnknownNameOfKind(type.section, name, schema_.Names(type.section)));
      if (entry.is_map()) Map(entry, at, {section});
      return false;
    };
    const auto sieve = [&](ConfigNode& map) {
      std::erase_if(map.children, [&](ConfigNode& entry) { return leaves(entry, entry.key); });
    };
    if (value.is_map()) return sieve(value);
    std::erase_if(value.children, [&](ConfigNode& item) {
      if (item.is_scalar()) return leaves(item, item.scalar);
      sieve(item);
      return item.is_map() && item.children.empty();
    });
  }

  const ConfigNode& document_;
  const Schema& schema_;
};

}  // namespace

absl::StatusOr<Converted> ConvertConfig(const std::string& path, const Environment& env, const Schema& schema) {
  ASSIGN_OR_RETURN(ConfigNode root, LoadRawConfig({path}, {}));
  RETURN_IF_ERROR(AcceptForeignNames(schema, root));
  const KeySection* job = schema.Find("map", "job");
  const ConfigNode document = root;
  Sieve sieve(document, schema);
  if (job != nullptr) sieve.Map(root, "", {job});
  Converted result;
  result.yaml = ToYaml(root);
  result.left_out = std::move(sieve.left_out);
  absl::Status status = Interpolate(env, root);
  if (status.ok()) status = AcceptForeignNames(schema, root);
  if (status.ok()) status = CheckJob(root, {.schema = schema, .open_names = IsGiven(root.Find("plugins"))});
  if (!status.ok()) result.to_do = absl::StrSplit(status.message(), '\n');
  return result;
}

}  // namespace composer

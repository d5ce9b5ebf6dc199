// SPDX-License-Identifier: Apache-2.0
#include "config/override.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "config/renamed_keys.h"
#include "config/yaml.h"

namespace composer {
namespace {

enum class Action { kSet, kCreate, kDelete };

struct Override {
  Action action = Action::kSet;
  std::vector<std::string> path;
  absl::string_view value;
  std::string source;  // for marks
};

absl::Status Invalid(const Override& override, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(override.source, ": ", message));
}

absl::StatusOr<Override> Split(absl::string_view text) {
  Override result;
  result.source = absl::StrCat("command line `", text.substr(0, 200), "`");
  if (absl::ConsumePrefix(&text, "~")) {
    result.action = Action::kDelete;
  } else if (!absl::ConsumePrefix(&text, "++") && absl::ConsumePrefix(&text, "+")) {
    result.action = Action::kCreate;
  }
  const size_t equals = text.find('=');
  if (result.action == Action::kDelete) {
    if (equals != absl::string_view::npos) return Invalid(result, "`~` deletes and takes no value");
  } else if (equals == absl::string_view::npos) {
    return Invalid(result, "expected key=value");
  } else {
    result.value = text.substr(equals + 1);
    text = text.substr(0, equals);
  }
  result.path = absl::StrSplit(text, '.');
  for (const std::string& part : result.path) {
    if (part.empty()) return Invalid(result, "expected key=value with a dotted key such as optimizer.lr");
  }
  if (result.path.size() > 32) return Invalid(result, "nested too deep");
  if (const std::string key = AcceptedKey(result.path[0]); !key.empty()) result.path[0] = key;
  return result;
}

ConfigNode& AddChild(const Override& override, std::string key, ConfigNode& parent) {
  ConfigNode& child = parent.children.emplace_back();
  child.key = std::move(key);
  child.key_mark = child.mark = SourceMark{override.source};
  return child;
}

// Returns the index that `part` denotes in a list; `limit` itself is valid, for appending.
absl::StatusOr<size_t> ListIndex(const Override& override, const std::string& part, size_t limit) {
  uint32_t index = 0;
  if (!absl::SimpleAtoi(part, &index))
    return Invalid(override, absl::StrCat("`", part, "` is not an index into a list"));
  if (index > limit) return Invalid(override, absl::StrCat("index ", index, " is past the end of a list of ", limit));
  return index;
}

// Returns the child named `part`, creating it when missing; sets `created` accordingly.
absl::StatusOr<ConfigNode*> Descend(const Override& override, const std::string& part, ConfigNode& node,
                                    bool& created) {
  created = false;
  if (node.is_list()) {
    ASSIGN_OR_RETURN(const size_t index, ListIndex(override, part, node.children.size()));
    created = index == node.children.size();
    return created ? &AddChild(override, "", node) : &node.children[index];
  }
  if (node.is_null()) node.kind = ConfigNode::Kind::kMap;
  if (!node.is_map()) {
    return Invalid(override,
                   absl::StrCat("`", part, "` cannot be set inside ", node.Describe(), ", which is not a map"));
  }
  if (ConfigNode* child = node.Find(part)) return child;
  created = true;
  return &AddChild(override, part, node);
}

absl::Status Delete(const Override& override, ConfigNode& root) {
  ConfigNode* node = &root;
  for (size_t i = 0; i < override.path.size(); ++i) {
    const std::string& part = override.path[i];
    size_t index = 0;
    if (node->is_list()) {
      ASSIGN_OR_RETURN(index, ListIndex(override, part, node->children.size()));
    } else {
      while (index < node->children.size() && node->children[index].key != part) ++index;
    }
    if (index >= node->children.size()) {
      return Invalid(override, absl::StrCat("there is no `", part, "` to delete", DidYouMean(part, node->Keys())));
    }
    if (i + 1 == override.path.size()) {
      node->children.erase(node->children.begin() + static_cast<std::ptrdiff_t>(index));
    } else {
      node = &node->children[index];
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyOverride(absl::string_view text, ConfigNode& root) {
  if (FirstBadUtf8(text) != absl::string_view::npos)
    return absl::InvalidArgumentError(
        absl::StrCat("command line `", absl::CHexEscape(text.substr(0, 200)), "`: not valid UTF-8"));
  ASSIGN_OR_RETURN(const Override override, Split(text));
  if (override.action == Action::kDelete) return Delete(override, root);
  ASSIGN_OR_RETURN(ConfigNode value, ParseYamlValue(override.value, override.source));
  ConfigNode* node = &root;
  bool created = false;
  for (const std::string& part : override.path) {
    ASSIGN_OR_RETURN(node, Descend(override, part, *node, created));
  }
  if (override.action == Action::kCreate && !created) {
    return Invalid(override, "`+` creates a key, but this one is there already; leave the `+` out to change it");
  }
  if (value.mark.source.empty()) value.mark.source = override.source;
  node->AssignValue(std::move(value));
  node->key_mark = SourceMark{override.source};
  return absl::OkStatus();
}

bool LooksLikeOverride(absl::string_view text) {
  if (absl::StartsWith(text, "~")) return true;
  absl::ConsumePrefix(&text, "+");
  absl::ConsumePrefix(&text, "+");
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0) return false;
  for (char c : text.substr(0, equals)) {
    if (!absl::ascii_isalnum(c) && c != '_' && c != '.' && c != '-') return false;
  }
  return absl::ascii_isalpha(text[0]) || text[0] == '_';
}

}  // namespace composer

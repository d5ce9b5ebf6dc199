// A YAML document as a tree of our own: plain values that remember where they were written. Parsing and writing is in
// yaml.h; finding by path is here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// Where a value was written. `source` is the file as the user named it, or "command line `seed=1`".
struct SourceMark {
  std::string source;
  int line = 0;  // from 1; 0: the source has no lines
  int column = 0;

  // Returns "train.yaml:7:3", or just the source.
  std::string ToString() const;
};

// One node with everything below it. Children of a map carry their key, unique within the map, in the order written.
struct ConfigNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string scalar;   // kScalar: the text without quotes
  bool quoted = false;  // kScalar: written in quotes, so never a number or a boolean
  // For a kScalar with a part from the environment: the text as written, "${oc.env:KEY}". Files, logs and messages show
  // this text, since the value may be a secret. "" when no part is from the environment.
  std::string written;
  std::vector<ConfigNode> children;
  std::string key;  // in a map
  SourceMark key_mark;
  SourceMark mark;

  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_null() const { return kind == Kind::kNull; }

  // Returns the value under a key of a map; null when it has none or this is not a map.
  const ConfigNode* Find(absl::string_view key) const;
  ConfigNode* Find(absl::string_view key);
  // Returns the node at a dotted path with list indexes: "callbacks.0.name"; null when there is none.
  const ConfigNode* FindPath(absl::string_view path) const;
  // Takes another node's value and mark, and keeps its own key.
  void AssignValue(ConfigNode value);
  // Returns the keys of a map.
  std::vector<std::string> Keys() const;
  // Returns what users may see of a scalar.
  const std::string& shown() const { return written.empty() ? scalar : written; }
  // Describes the node for messages: "a map", "a list", "nothing", "`text`" (truncated if long), "the string \"text\"".
  std::string Describe() const;
};

// Returns whether a key was written with a value; `node` is null when it was not written.
inline bool IsGiven(const ConfigNode* node) { return node != nullptr && !node->is_null(); }

}  // namespace composer

// A YAML document as a tree of our own: plain values that remember where they were written.
// Parsing and writing is yaml.h's; finding by path is here.
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

  // "train.yaml:7:3", or just the source.
  std::string ToString() const;
};

// One node with everything below it. Children of a map carry their key, unique within the map, in the order of writing.
struct ConfigNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string scalar;   // kScalar: the text without quotes
  bool quoted = false;  // kScalar: written in quotes, so never a number or a boolean
  // kScalar with a part out of the environment: the text as it was written, "${oc.env:KEY}", since the value may be a
  // secret: files, logs and
  // messages have this one. "": no part is.
  std::string written;
  std::vector<ConfigNode> children;
  std::string key;  // in a map
  SourceMark key_mark;
  SourceMark mark;

  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_null() const { return kind == Kind::kNull; }

  // The value under a key of a map; null when it has none or this is not a map.
  const ConfigNode* Find(absl::string_view key) const;
  ConfigNode* Find(absl::string_view key);
  // The node at a dotted path with list indexes: "callbacks.0.name". Null when there is none.
  const ConfigNode* FindPath(absl::string_view path) const;
  // Takes another node's value and its mark, and keeps its own key.
  void AssignValue(ConfigNode value);
  // The keys of a map.
  std::vector<std::string> Keys() const;
  // What people may see of a scalar.
  const std::string& shown() const { return written.empty() ? scalar : written; }
  // For messages: "a map", "a list", "nothing", "`text`" (long ones cut), "the string \"text\"".
  std::string Describe() const;
};

// Whether a key was written with a value; null: it was not written.
inline bool IsGiven(const ConfigNode* node) { return node != nullptr && !node->is_null(); }

}  // namespace composer

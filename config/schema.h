// The keys that a job's file may have: names, types, ranges, defaults and meanings, in one table of text
// (config/keys/*.cc; a plugin's own is in a note of its file). Torch-free, so that the launcher can check a job before
// it starts anything; tests/worker/job_keys_test.cc compares the worker's readers with it key by key.
//
//   [model mlp] A multilayer perceptron.                 a section: of a kind, with a name
//   sizes | ints 1..16777216 | [64, 10] | Neurons of each layer.        key | type | default | meaning
//   rule n_heads divides d_model                         a constraint between keys
//   include loader                                       also has the rows of [map loader]
//
// A line that ends in a backslash goes on in the next one.
//
// Types, several joined by ` or `:
//   bool                 text [1..]          (at least so many bytes)     one of A, B, C     any
//   int [1..9]           number [0..1]       ends are included; either may be missing; `0<..`: more than 0
//   time [RULES]         `>0`, `>=0`, and the units that are allowed: `time >0 ep, ba`. Shares of the run (dur) are
//                        at most 1
//   interval             a time of at least one batch (a bare number) or epoch
//   ints [1..], numbers, texts, times       lists; texts and times also as one value that is not a list
//   map [NAME]           with the keys of [map NAME]; without a name: any;  list map NAME: a list of these, or one
//   named KIND           with `name`, one of the sections of that kind;  named list KIND: a list of these, or one;
//                        `with NAME`: also has the keys of [map NAME]
//   names KIND           a map whose keys are names of sections, or a list of such
// Default: a YAML value; `required`; `-` for none; `(words)` when it follows from other settings; `A; B when KEY is
// VALUE` (KEY at the top).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct ValueType {
  enum class Kind {
    kBool,
    kText,
    kChoice,
    kAny,
    kInt,
    kNumber,
    kTime,
    kInterval,
    kInts,
    kNumbers,
    kTexts,
    kTimes,
    kMap,
    kMapList,
    kNamed,
    kNamedList,
    kNames,
  };
  Kind kind = Kind::kAny;
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  bool above_min = false;          // min itself is not allowed
  std::vector<std::string> words;  // words of a choice; units of a time, empty: all
  std::string section;             // the name of a map, "" for any; the kind of named things
  std::string with;                // for named things: a map whose keys they also have
};

struct KeyRow {
  std::string key;
  std::vector<ValueType> types;
  std::string type_text;  // as written
  std::string fallback;   // YAML text; "": none, or it follows from other settings
  std::string derived;    // how the default follows from other settings
  struct Otherwise {
    std::string fallback, key, value;  // used when the top has this value under this key
  };
  std::vector<Otherwise> otherwise;
  bool required = false;
  std::string meaning;
};

struct KeyRule {
  enum class Kind { kDivides, kAtMostOne };
  Kind kind;
  std::vector<std::string> keys;
};

struct KeySection {
  std::string kind, name, meaning;
  std::vector<KeyRow> rows;
  std::vector<KeyRule> rules;

  const KeyRow* Find(absl::string_view key) const;
};

// Plain data once it is filled; after that, any thread may read it.
class Schema {
 public:
  // Adds the sections of a table; adds nothing on an error, which names the line. `include` sees what was added before.
  absl::Status Add(absl::string_view table);

  // Returns null when there is none.
  const KeySection* Find(absl::string_view kind, absl::string_view name) const;
  // Returns the names of all sections of a kind, in alphabetical order.
  std::vector<std::string> Names(absl::string_view kind) const;
  const std::map<std::pair<std::string, std::string>, KeySection>& sections() const { return sections_; }

 private:
  std::map<std::pair<std::string, std::string>, KeySection> sections_;
};

// Parses "int 1..4 or one of auto".
absl::StatusOr<std::vector<ValueType>> ParseTypes(absl::string_view text);

// Returns the built-in schema. The top of a file is [map job].
const Schema& BuiltInSchema();

}  // namespace composer

// Typed reading of a resolved configuration. All errors of one run are collected; a key that nobody asks for is
// unknown.
//
//   ConfigReader reader(document);
//   ConfigMap root = reader.root();
//   options.seed = root.Int("seed", 0, {.min = 0});
//   ConfigMap optimizer = root.Map("optimizer");
//   options.lr = optimizer.Double("lr", 1e-3, {.min = 0});
//   RETURN_IF_ERROR(reader.Finish());
//
// Messages: "train.yaml:7:3: max_duraton: unknown key (did you mean `max_duration`?)",
//           "train.yaml:9:9: optimizer.lr: expected a number, got `fast`".
// A null value (`key:`) counts as not given. After an error, getters return the default.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "config/node.h"

namespace composer {

struct IntRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

struct DoubleRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

class ConfigMap;

// A question that a reader asked of the document; used to compare the readers with the table of keys (schema.h).
struct ConfigAsk {
  std::string path;  // path of the map
  std::string key;
  // "int", "number", "bool", "text", "time", "choice", "ints", "numbers", "texts"; "": only asks whether the key is
  // present
  std::string type;
  std::string fallback;  // as YAML; "": none
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  std::vector<std::string> words;  // the allowed words of a choice
};

// Owns what was asked for and what was wrong. The document must outlive the reader, and the reader its maps. Not
// thread-safe.
class ConfigReader {
 public:
  // `document` is a resolved map.
  explicit ConfigReader(const ConfigNode& document) : document_(document) {}
  ConfigReader(const ConfigReader&) = delete;
  ConfigReader& operator=(const ConfigReader&) = delete;

  ConfigMap root();
  // Returns OK, or kInvalidArgument with one line for each error so far.
  absl::Status status() const;
  // Like status(), but also reports the keys that nobody asked for in every map that was read (`variables` at the top
  // is never unknown).
  absl::Status Finish();

  // Adds an error about a place in the document.
  void Fail(const SourceMark& mark, absl::string_view path, absl::string_view message);
  // Open marks a map as opened; MakeKnown marks one of its keys as known.
  void Open(const ConfigNode& map) { asked_[&map]; }
  void MakeKnown(const ConfigNode& map, absl::string_view key) { asked_[&map].insert(std::string(key)); }
  // Records all further questions in `asks`.
  void Record(std::vector<ConfigAsk>* asks) { asks_ = asks; }
  void Note(ConfigAsk ask) {
    if (asks_ != nullptr) asks_->push_back(std::move(ask));
  }
  bool records() const { return asks_ != nullptr; }

 private:
  void RejectUnknown(const ConfigNode& node, const std::string& path);

  const ConfigNode& document_;
  std::map<const ConfigNode*, std::set<std::string>> asked_;
  std::vector<std::string> errors_;
  std::vector<ConfigAsk>* asks_ = nullptr;
};

// A view of one map; cheap to copy. A map that is absent from the document reads as empty.
class ConfigMap {
 public:
  // `node` is null when the map was not given; `mark` is where it is, or where it would be.
  ConfigMap(ConfigReader* reader, const ConfigNode* node, std::string path, SourceMark mark)
      : reader_(reader), node_(node), path_(std::move(path)), mark_(std::move(mark)) {}

  // Returns true when the key has a value other than null. Makes the key known: it is suggested to users who mistype
  // it.
  bool Has(absl::string_view key) const;
  // Returns false for the view of a map that was not given.
  bool exists() const { return node_ != nullptr; }
  // Returns the keys in the order written; makes none of them known.
  std::vector<std::string> Keys() const { return node_ == nullptr ? std::vector<std::string>() : node_->Keys(); }
  // Returns the dotted path from the top; "" for the top itself.
  const std::string& path() const { return path_; }

  // Without a default, the key is required.
  std::string String(absl::string_view key);
  std::string String(absl::string_view key, absl::string_view fallback);
  int64_t Int(absl::string_view key, int64_t fallback, IntRange range = {});
  int64_t RequiredInt(absl::string_view key, IntRange range = {});
  double Double(absl::string_view key, double fallback, DoubleRange range = {});
  double RequiredDouble(absl::string_view key, DoubleRange range = {});
  bool Bool(absl::string_view key, bool fallback);
  // Returns a training time ("10ep", 500, 1dur) as its text; base/time parses it, and the caller passes its error to
  // Reject.
  std::string Time(absl::string_view key, absl::string_view fallback);
  // Returns one of `allowed`.
  std::string Choice(absl::string_view key, absl::Span<const absl::string_view> allowed, absl::string_view fallback);
  // Returns whether the value is this word (`auto`, where a number is usual); false when it is not given.
  bool Is(absl::string_view key, absl::string_view word);
  std::vector<int64_t> IntList(absl::string_view key, std::vector<int64_t> fallback, IntRange range = {});
  std::vector<double> DoubleList(absl::string_view key, std::vector<double> fallback, DoubleRange range = {});
  std::vector<std::string> StringList(absl::string_view key, std::vector<std::string> fallback);

  ConfigMap Map(absl::string_view key);
  // Returns the maps of a list; a single map counts as a list of one.
  std::vector<ConfigMap> MapList(absl::string_view key);
  // Returns the entries of a map whose keys are names: {speed_monitor: {window: 10}, lr_monitor: } gives both, in
  // order. An entry without a value reads as an empty map. A list of such maps, or of bare names, is equivalent, and
  // may contain a name more than once: [{speed_monitor: {window: 10}}, lr_monitor]. Serves `callbacks`, `algorithms`
  // and `loggers`.
  struct Named;
  std::vector<Named> NamedMaps(absl::string_view key);

  // Adds an error about this key's value, or about the map itself when key is "".
  void Reject(absl::string_view key, absl::string_view message);
  // Stops treating keys that nobody asks for as errors here; used after an error that leaves their meaning open (an
  // unknown `name`).
  void IgnoreRest();

 private:
  // Returns the key's value, null when not given; makes the key known.
  const ConfigNode* Ask(absl::string_view key);
  template <typename Value, typename Range>
  void Note(absl::string_view key, absl::string_view type, const Value& fallback, const Range& range) const;
  void Missing(absl::string_view key);
  template <typename T, typename Range, typename Parse>
  std::vector<T> NumberList(absl::string_view key, std::vector<T> fallback, const Range& range, Parse parse);
  std::vector<Named> NamedMapsOfList(const ConfigNode& list, const std::string& path) const;
  std::vector<Named> Entries();
  std::string ChildPath(absl::string_view key) const;
  ConfigMap Child(const ConfigNode* node, std::string path) const;

  ConfigReader* reader_;
  const ConfigNode* node_;  // null: not given
  std::string path_;
  SourceMark mark_;  // where the map is, or where it would be
};

struct ConfigMap::Named {
  std::string name;
  ConfigMap map;
};

}  // namespace composer

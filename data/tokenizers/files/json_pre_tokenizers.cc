// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/characters.h"
#include "data/tokenizers/files/json_parts.h"
#include "data/tokenizers/split/gpt_pattern.h"
#include "data/tokenizers/split/match_splitter.h"
#include "data/tokenizers/split/simple_splitters.h"

namespace composer {
namespace {

constexpr char kPreTokenizers[] =
    "ByteLevel, Split, BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation, Digits, Metaspace, "
    "CharDelimiterSplit and Sequence";
constexpr std::pair<const char*, MatchBehavior> kBehaviors[] = {
    {"Removed", MatchBehavior::kRemoved},
    {"Isolated", MatchBehavior::kIsolated},
    {"MergedWithPrevious", MatchBehavior::kMergedWithPrevious},
    {"MergedWithNext", MatchBehavior::kMergedWithNext},
    {"Contiguous", MatchBehavior::kContiguous}};

MatchBehavior ReadBehavior(JsonFields& fields) {
  const std::string text = fields.Text("behavior", "Isolated");
  for (const auto& [name, behavior] : kBehaviors) {
    if (text == name) return behavior;
  }
  fields.Reject("behavior",
                absl::StrCat("`", text.substr(0, 50),
                             "` must be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous"));
  return MatchBehavior::kIsolated;
}

absl::StatusOr<PreTokenizerPtr> ReadSplit(JsonFields& fields) {
  const MatchBehavior behavior = ReadBehavior(fields);
  const bool inverted = fields.Bool("invert", false);
  const auto* pattern = fields.Child("pattern");
  const bool takes_matches =
      (behavior == MatchBehavior::kIsolated && !inverted) || (behavior == MatchBehavior::kRemoved && inverted);
  if (takes_matches && pattern != nullptr && pattern->is_object() && pattern->contains("Regex") &&
      (*pattern)["Regex"].is_string()) {
    if (const auto known = KnownPattern((*pattern)["Regex"].get<std::string>())) return MakeGptSplitter(*known);
  }
  ASSIGN_OR_RETURN(FoundSpans find, ReadPattern(fields));
  return MakeMatchSplitter(std::move(find), behavior, inverted);
}

PreTokenizerPtr ReadMetaspace(JsonFields& fields) {
  const std::string mark = fields.Text("replacement", "\xe2\x96\x81");
  if (mark.empty()) fields.Reject("replacement", "must not be empty");
  fields.Ignore({"str_rep"});
  const bool adds = fields.Bool("add_prefix_space", true);
  const std::string scheme = fields.Text("prepend_scheme", adds ? "always" : "never");
  const bool cuts = fields.Bool("split", true);
  if (scheme == "always") return MakeMetaspace(mark, PrependScheme::kAlways, cuts);
  if (scheme == "first") return MakeMetaspace(mark, PrependScheme::kFirst, cuts);
  if (scheme != "never") fields.Reject("prepend_scheme", "must be always, first or never");
  return MakeMetaspace(mark, PrependScheme::kNever, cuts);
}

PreTokenizerPtr ReadByteLevel(JsonFields& fields) {
  fields.Ignore({"trim_offsets"});
  std::vector<PreTokenizerPtr> parts;
  if (fields.Bool("add_prefix_space", true)) parts.push_back(MakePrefixSpace());
  if (fields.Bool("use_regex", true)) parts.push_back(MakeGptSplitter(GptPattern::kGpt2));
  return MakeSequence(std::move(parts));
}

absl::StatusOr<PreTokenizerRead> ReadPreTokenizerSequence(JsonFields& fields, const std::string& path) {
  std::vector<PreTokenizerPtr> parts;
  bool of_bytes = false;
  const auto* list = fields.Child("pretokenizers");
  if (list == nullptr || !list->is_array()) {
    fields.Reject("pretokenizers", "must be a list");
    return PreTokenizerRead();
  }
  for (const auto& item : *list) {
    const std::string place = absl::StrCat(path, ".pretokenizers[", parts.size(), "]");
    if (of_bytes) return absl::InvalidArgumentError(absl::StrCat(place, ": a step after ByteLevel is not supported"));
    ASSIGN_OR_RETURN(PreTokenizerRead part, ReadPreTokenizer(item, place));
    of_bytes = part.of_bytes;
    parts.push_back(std::move(part.pre_tokenizer));
  }
  return PreTokenizerRead{MakeSequence(std::move(parts)), of_bytes};
}

absl::StatusOr<PreTokenizerPtr> PreTokenizerOfType(const std::string& type, JsonFields& fields) {
  if (type == "Split") return ReadSplit(fields);
  if (type == "BertPreTokenizer") return MakeBertSplitter();
  if (type == "Whitespace") return MakeMatchSplitter(FindWordsAndSymbols(), MatchBehavior::kRemoved, true);
  if (type == "WhitespaceSplit") return MakeMatchSplitter(FindCharacters(char_is::kSpace), MatchBehavior::kRemoved);
  if (type == "Punctuation") return MakeMatchSplitter(FindCharacters(char_is::kPunctuation), ReadBehavior(fields));
  if (type == "Digits") {
    const bool each = fields.Bool("individual_digits", false);
    return MakeMatchSplitter(FindCharacters(char_is::kNumber),
                             each ? MatchBehavior::kIsolated : MatchBehavior::kContiguous);
  }
  if (type == "Metaspace") return ReadMetaspace(fields);
  if (type == "CharDelimiterSplit") {
    const std::string delimiter = fields.Text("delimiter");
    if (delimiter.empty()) fields.Reject("delimiter", "must not be empty");
    return MakeMatchSplitter(FindLiteral(delimiter), MatchBehavior::kRemoved);
  }
  fields.Reject("type", absl::StrCat("`", type.substr(0, 50), "` is not supported; ", kPreTokenizers, " are"));
  return nullptr;
}

}  // namespace

absl::StatusOr<PreTokenizerRead> ReadPreTokenizer(const JsonFields::Json& json, const std::string& path) {
  RETURN_IF_ERROR(CheckDepth(path));
  JsonFields fields(json, path);
  const std::string type = fields.Text("type");
  PreTokenizerRead read;
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(read, ReadPreTokenizerSequence(fields, path));
  } else if (type == "ByteLevel") {
    read = {ReadByteLevel(fields), true};
  } else {
    ASSIGN_OR_RETURN(read.pre_tokenizer, PreTokenizerOfType(type, fields));
  }
  RETURN_IF_ERROR(fields.Done());
  return read;
}

}  // namespace composer

// The tokenizers whose files have a line for each token or merge.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/bpe_parts.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "data/tokenizers/model/wordpiece.h"
#include "data/tokenizers/normalize/unicode_form.h"
#include "data/tokenizers/split/simple_splitters.h"

namespace composer {
namespace {

// Returns the lines without their ends; the last one may end with the file.
std::vector<absl::string_view> LinesOf(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (absl::string_view& line : lines) absl::ConsumeSuffix(&line, "\r");
  return lines;
}

AddedToken SpecialToken(std::string content, uint32_t id) {
  return {.content = std::move(content), .id = id, .normalized = false, .special = true};
}

}  // namespace

absl::StatusOr<TokenizerParts> ParseVocabTxt(absl::string_view text, bool lowercase) {
  TokenNumbers tokens;
  for (const absl::string_view line : LinesOf(text))
    tokens.emplace_back(std::string(line), static_cast<uint32_t>(tokens.size()));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  TokenizerParts parts;
  for (const auto& [name, content] : std::initializer_list<std::pair<const char*, const char*>>{
           {"unk", "[UNK]"}, {"cls", "[CLS]"}, {"sep", "[SEP]"}, {"pad", "[PAD]"}, {"mask", "[MASK]"}}) {
    const auto id = vocabulary.Find(content);
    if (!id)
      return absl::InvalidArgumentError(absl::StrCat("this vocabulary has no token ", content, ", as BERT's have"));
    parts.special[name] = *id;
    parts.added.push_back(SpecialToken(content, *id));
  }
  parts.prefix = {parts.special["cls"]};
  parts.suffix = {parts.special["sep"]};
  parts.normalizer = MakeBertNormalizer({.strip_accents = lowercase, .lowercase = lowercase});
  parts.pre_tokenizer = MakeBertSplitter();
  parts.model = std::make_unique<WordPieceModel>(std::move(vocabulary), parts.special["unk"], "##", 100);
  parts.decode_steps = {DecodeWordPiece("##", true)};
  return parts;
}

absl::StatusOr<TokenizerParts> ParseGpt2Files(absl::string_view vocab_json, absl::string_view merges_txt) {
  const auto json = ParseJson(vocab_json);
  if (!json.is_object()) return absl::InvalidArgumentError("vocab.json: must be a JSON object of tokens and numbers");
  TokenNumbers tokens;
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= Vocabulary::kMaxTokens)
      return absl::InvalidArgumentError(absl::StrCat("vocab.json: the number of `", token.substr(0, 100), "` is ",
                                                     id.is_number() ? id.dump() : id.type_name()));
    tokens.emplace_back(token, id.get<uint32_t>());
  }
  TokensToBytes(tokens);
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const absl::string_view line : LinesOf(merges_txt)) {
    if (absl::StartsWith(line, "#version") || line.empty()) continue;
    const std::vector<std::string> both = absl::StrSplit(line, ' ');
    if (both.size() != 2)
      return absl::InvalidArgumentError(absl::StrCat("merges.txt: `", line.substr(0, 100), "` is not two tokens"));
    pairs.emplace_back(both[0], both[1]);
  }
  ASSIGN_OR_RETURN(const std::vector<BpeMerge> merges, MergesByNumber(vocabulary, pairs, true, ""));
  TokenizerParts parts;
  parts.of_bytes = true;
  if (const auto end = vocabulary.Find("<|endoftext|>")) {
    parts.added.push_back(SpecialToken("<|endoftext|>", *end));
    for (const char* name : {"bos", "eos", "unk"}) parts.special[name] = *end;
  }
  parts.pre_tokenizer = MakeGptSplitter(GptPattern::kGpt2);
  parts.model = std::make_unique<BpeModel>(std::move(vocabulary), merges, BpeOptions{.of_bytes = true});
  return parts;
}

absl::StatusOr<TokenizerParts> ParseTiktoken(absl::string_view text, GptPattern pattern,
                                             const std::vector<std::string>& special) {
  TokenNumbers tokens;
  for (const absl::string_view line : LinesOf(text)) {
    if (line.empty()) continue;
    const std::pair<absl::string_view, absl::string_view> both = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    std::string token;
    uint32_t rank = 0;
    if (!absl::Base64Unescape(both.first, &token) || token.empty() || !absl::SimpleAtoi(both.second, &rank))
      return absl::InvalidArgumentError(
          absl::StrCat("`", line.substr(0, 100), "` is not a token in base64 and its rank"));
    tokens.emplace_back(std::move(token), rank);
  }
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  TokenizerParts parts;
  parts.of_bytes = true;
  for (const std::string& content : special)
    parts.added.push_back(SpecialToken(content, vocabulary.size() + static_cast<uint32_t>(parts.added.size())));
  const std::vector<BpeMerge> merges = MergesOfRanks(vocabulary);
  parts.pre_tokenizer = MakeGptSplitter(pattern);
  parts.model =
      std::make_unique<BpeModel>(std::move(vocabulary), merges, BpeOptions{.of_bytes = true, .ignore_merges = true});
  return parts;
}

}  // namespace composer

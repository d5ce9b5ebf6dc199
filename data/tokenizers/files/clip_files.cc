// CLIP's files say less than a tokenizer.json: this writes the one that transformers makes of them.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/format/json.h"
#include "data/tokenizers/files/tokenizer_files.h"

namespace composer {
namespace {

constexpr char kStart[] = "<|startoftext|>", kEnd[] = "<|endoftext|>";
constexpr char kClipPattern[] = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

using Json = nlohmann::json;

Json ClipSpecial(const std::string& content, const Json& id, bool normalized) {
  return {{"id", id},        {"content", content}, {"single_word", false},    {"lstrip", false},
          {"rstrip", false}, {"special", true},    {"normalized", normalized}};
}

}  // namespace

absl::StatusOr<TokenizerParts> ParseClipFiles(absl::string_view vocab_json, absl::string_view merges_txt,
                                              const std::string& pad) {
  Json vocab = ParseJson(vocab_json);
  if (!vocab.is_object() || !vocab.contains(kStart) || !vocab.contains(kEnd))
    return absl::InvalidArgumentError(
        absl::StrCat("vocab.json: must be a JSON object of tokens and numbers with ", kStart, " and ", kEnd));
  const Json start = vocab[kStart], end = vocab[kEnd];
  Json added = Json::array({ClipSpecial(kStart, start, true), ClipSpecial(kEnd, end, true)});
  if (!pad.empty() && pad != kStart && pad != kEnd && vocab.contains(pad))
    added.push_back(ClipSpecial(pad, vocab[pad], false));
  std::vector<std::string> merges;
  for (const absl::string_view line : absl::StrSplit(merges_txt, absl::ByAnyChar("\r\n"), absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "#version")) merges.emplace_back(line);
  }
  const Json normalizers = {{{"type", "NFC"}},
                            {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}},
                            {{"type", "Lowercase"}}};
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kClipPattern}}}, {"behavior", "Removed"}, {"invert", true}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json file = {{"added_tokens", added},
                     {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
                     {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}}},
                     {"post_processor",
                      {{"type", "RobertaProcessing"},
                       {"sep", Json::array({kEnd, end})},
                       {"cls", Json::array({kStart, start})},
                       {"trim_offsets", false},
                       {"add_prefix_space", false}}},
                     {"decoder", bytes},
                     {"model",
                      {{"type", "BPE"},
                       {"unk_token", kEnd},
                       {"end_of_word_suffix", "</w>"},
                       {"vocab", std::move(vocab)},
                       {"merges", merges}}}};
  return ParseTokenizerJson(file.dump());
}

}  // namespace composer

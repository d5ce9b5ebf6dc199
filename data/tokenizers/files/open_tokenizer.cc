// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/tokenizer_files.h"

namespace composer {
namespace {

absl::StatusOr<std::string> ReadTokenizerFile(const std::string& path) { return ReadFile(path, kMaxTokenizerFile); }

// Returns a JSON file beside the tokenizer's; null if there is none.
nlohmann::json FileBeside(const std::string& folder, const char* name) {
  const auto text = ReadTokenizerFile(JoinPath(folder, name));
  nlohmann::json json = text.ok() ? ParseJson(*text) : nlohmann::json();
  return json.is_object() ? json : nlohmann::json();
}

// Returns the files with special tokens in the order in which they count, the last one most: as transformers reads
// them, whose newer tokenizer_config.json say all of it.
std::vector<const char*> ConfigsOf(const std::string& folder) {
  if (FileBeside(folder, "tokenizer_config.json").contains("added_tokens_decoder"))
    return {"special_tokens_map.json", "tokenizer_config.json"};
  return {"tokenizer_config.json", "special_tokens_map.json"};
}

bool IsClip(const std::string& folder) {
  const nlohmann::json config = FileBeside(folder, "tokenizer_config.json");
  const nlohmann::json name = config.is_object() ? config.value("tokenizer_class", nlohmann::json()) : config;
  return name == "CLIPTokenizer" || name == "CLIPTokenizerFast";
}

// Returns the pad_token that counts, "" without one.
std::string PadOf(const std::string& folder) {
  std::string pad;
  for (const char* name : ConfigsOf(folder)) {
    const nlohmann::json file = FileBeside(folder, name);
    if (!file.is_object() || !file.contains("pad_token")) continue;
    const nlohmann::json& token = file["pad_token"];
    const nlohmann::json content = token.is_object() ? token.value("content", nlohmann::json()) : token;
    if (content.is_string()) pad = content.get<std::string>();
  }
  return pad;
}

// Returns do_lower_case of a tokenizer_config.json beside the file.
bool LowercaseOf(const std::string& folder, bool fallback) {
  const nlohmann::json json = FileBeside(folder, "tokenizer_config.json");
  if (!json.is_object() || !json.contains("do_lower_case") || !json["do_lower_case"].is_boolean()) return fallback;
  return json["do_lower_case"].get<bool>();
}

absl::StatusOr<TokenizerParts> ReadParts(const std::string& path, const OpenTokenizerOptions& options) {
  const std::string name = BaseName(path), folder = DirName(path);
  ASSIGN_OR_RETURN(const std::string bytes, ReadTokenizerFile(path));
  if (absl::EndsWith(name, ".model")) return ParseSentencePiece(bytes);
  if (absl::EndsWith(name, ".tiktoken")) return ParseTiktoken(bytes, options.pattern, options.special);
  if (absl::EndsWith(name, ".txt") || name == "vocab")
    return ParseVocabTxt(bytes, LowercaseOf(folder, options.lowercase));
  if (name == "vocab.json" || name == "encoder.json") {
    const char* const merges_name = name == "vocab.json" ? "merges.txt" : "vocab.bpe";
    ASSIGN_OR_RETURN(const std::string merges, ReadTokenizerFile(JoinPath(folder, merges_name)));
    return IsClip(folder) ? ParseClipFiles(bytes, merges, PadOf(folder)) : ParseGpt2Files(bytes, merges);
  }
  if (absl::EndsWith(name, ".json")) return ParseTokenizerJson(bytes);
  return absl::InvalidArgumentError(
      "its name says of no known kind that it is: tokenizer.json, vocab.txt, vocab.json, *.model or *.tiktoken");
}

absl::StatusOr<std::string> FindInFolder(const std::string& folder) {
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.txt", "vocab.json", "encoder.json"}) {
    if (PathExists(JoinPath(folder, name))) return JoinPath(folder, name);
  }
  return absl::NotFoundError(absl::StrCat(
      folder, ": has no tokenizer.json, tokenizer.model, spiece.model, vocab.txt, vocab.json or encoder.json"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextTokenizer>> OpenTokenizer(const std::string& path,
                                                             const OpenTokenizerOptions& options) {
  std::string file = path;
  if (IsDirectory(path)) {
    ASSIGN_OR_RETURN(file, FindInFolder(path));
  }
  absl::StatusOr<TokenizerParts> parts = ReadParts(file, options);
  if (!parts.ok())
    return absl::StrContains(parts.status().message(), path) ? parts.status() : Annotate(parts.status(), file);
  for (const char* name : ConfigsOf(DirName(file))) {
    const std::string config = JoinPath(DirName(file), name);
    if (!PathExists(config)) continue;
    ASSIGN_OR_RETURN(const std::string text, ReadTokenizerFile(config));
    const absl::Status status = ApplyTokenizerConfig(text, *parts);
    if (!status.ok()) return Annotate(status, config);
  }
  absl::StatusOr<std::unique_ptr<TextTokenizer>> made = TextTokenizer::Create(*std::move(parts));
  if (!made.ok()) return Annotate(made.status(), file);
  return made;
}

}  // namespace composer

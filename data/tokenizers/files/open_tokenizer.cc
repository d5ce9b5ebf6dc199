// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/tokenizer_files.h"

namespace composer {
namespace {

absl::StatusOr<std::string> ReadTokenizerFile(const std::string& path) { return ReadFile(path, kMaxTokenizerFile); }

// Returns do_lower_case of a tokenizer_config.json beside the file.
bool LowercaseOf(const std::string& folder, bool fallback) {
  const auto text = ReadTokenizerFile(JoinPath(folder, "tokenizer_config.json"));
  if (!text.ok()) return fallback;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
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
    return ParseGpt2Files(bytes, merges);
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
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
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

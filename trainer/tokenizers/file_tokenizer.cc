// SPDX-License-Identifier: Apache-2.0
#include "trainer/tokenizers/file_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr const char* kFileNames[] = {"tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "vocab.txt",
                                      "vocab.json",
                                      "merges.txt",
                                      "encoder.json",
                                      "vocab.bpe",
                                      "tokenizer.model",
                                      "added_tokens.json",
                                      "chat_template.jinja"};

OpenTokenizerOptions OpenOptions(const FileTokenizerOptions& options) {
  OpenTokenizerOptions open{.special = options.special};
  const auto pattern = PatternOfName(options.pattern);
  if (!pattern.ok()) throw StatusError(pattern.status());
  open.pattern = *pattern;
  return open;
}

}  // namespace

FileTokenizer::FileTokenizer(const FileTokenizerOptions& options) : name_(options.path) {
  auto tokenizer = OpenTokenizer(options.path, OpenOptions(options));
  if (!tokenizer.ok()) throw StatusError(tokenizer.status());
  tokenizer_ = *std::move(tokenizer);
  auto roles = tokenizer_->parts().special;
  for (const auto& [role, token] : options.roles) {
    const auto id = tokenizer_->Find(token);
    if (!id)
      throw StatusError(
          absl::InvalidArgumentError(absl::StrCat(role, ": `", token, "` is not a token of ", options.path)));
    roles[role] = *id;
  }
  for (const auto& [role, slot] :
       std::initializer_list<std::pair<const char*, std::optional<int64_t>*>>{{"bos", &special_.bos},
                                                                              {"eos", &special_.eos},
                                                                              {"pad", &special_.pad},
                                                                              {"unk", &special_.unk},
                                                                              {"mask", &special_.mask},
                                                                              {"cls", &special_.cls},
                                                                              {"sep", &special_.sep}}) {
    if (const auto id = roles.find(role); id != roles.end()) *slot = id->second;
  }
}

FileTokenizer::~FileTokenizer() = default;

int64_t FileTokenizer::vocab_size() const { return tokenizer_->vocab_size(); }

Encoding FileTokenizer::Encode(absl::string_view text, bool add_special_tokens) const {
  auto encoded = tokenizer_->Encode(text, {.add_special_tokens = add_special_tokens, .spans = true});
  if (!encoded.ok()) throw StatusError(encoded.status());
  Encoding encoding;
  encoding.ids = std::move(encoded->ids);
  encoding.offsets.reserve(encoded->spans.size());
  for (const TextSpan span : encoded->spans) encoding.offsets.emplace_back(span.begin, span.end);
  return encoding;
}

std::string FileTokenizer::Decode(absl::Span<const int64_t> tokens, bool skip_special_tokens) const {
  return tokenizer_->Decode(tokens, skip_special_tokens);
}

std::vector<std::pair<std::string, std::string>> FileTokenizer::Files() const {
  std::vector<std::pair<std::string, std::string>> files;
  const auto take = [&files](const std::string& path) {
    auto bytes = ReadFile(path);
    if (!bytes.ok()) throw StatusError(bytes.status());
    files.emplace_back(BaseName(path), *std::move(bytes));
  };
  for (const char* name : kFileNames) {
    if (const std::string path = JoinPath(name_, name); PathExists(path)) take(path);
  }
  if (files.empty()) take(name_);
  return files;
}

}  // namespace composer

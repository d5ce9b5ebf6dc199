// SPDX-License-Identifier: Apache-2.0
#include "trainer/tokenizers/file_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

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
          absl::InvalidArgumentError(absl::StrCat(role, ": `", token, "` is no token of ", options.path)));
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

}  // namespace composer

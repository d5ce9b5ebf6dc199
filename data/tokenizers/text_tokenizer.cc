// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/text_tokenizer.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "data/text/characters.h"
#include "data/text/utf8_repair.h"

namespace composer {

absl::StatusOr<std::unique_ptr<TextTokenizer>> TextTokenizer::Create(TokenizerParts parts) {
  auto made = std::unique_ptr<TextTokenizer>(new TextTokenizer(std::move(parts)));
  RETURN_IF_ERROR(made->Prepare());
  return made;
}

absl::Status TextTokenizer::Prepare() {
  const Vocabulary& vocabulary = parts_.model->vocabulary();
  uint32_t size = vocabulary.size();
  for (const AddedToken& token : parts_.added) {
    if (token.id >= Vocabulary::kMaxTokens)
      return absl::InvalidArgumentError(absl::StrCat("added token `", token.content, "` has the number ", token.id));
    size = std::max(size, token.id + 1);
  }
  for (const auto* ids : {&parts_.prefix, &parts_.suffix}) {
    for (const uint32_t id : *ids) {
      if (id >= size)
        return absl::InvalidArgumentError(absl::StrCat("special token ", id, " is not in the vocabulary"));
    }
  }
  texts_.resize(size);
  is_special_.resize(size);
  for (uint32_t id = 0; id < vocabulary.size(); ++id) texts_[id] = vocabulary.token(id);
  for (const uint32_t id : parts_.hidden) is_special_[id] = true;
  absl::flat_hash_set<std::string> contents;
  for (const AddedToken& token : parts_.added) {
    if (!contents.insert(token.content).second)
      return absl::InvalidArgumentError(absl::StrCat("added token `", token.content, "` is there twice"));
    texts_[token.id] = token.content;
    is_special_[token.id] = token.special;
    if (!token.normalized || parts_.normalizer == nullptr) {
      plain_.Add(token.content, &token);
    } else {
      AlignedText text(token.content, {0, static_cast<uint32_t>(token.content.size())}, false);
      parts_.normalizer->Apply(text);
      normalized_.Add(text.view(), &token);
    }
  }
  return absl::OkStatus();
}

std::optional<uint32_t> TextTokenizer::Find(absl::string_view token) const {
  for (const AddedToken& added : parts_.added) {
    if (added.content == token) return added.id;
  }
  return parts_.model->vocabulary().Find(token);
}

std::unique_ptr<ModelScratch> TextTokenizer::TakeScratch() const {
  absl::MutexLock lock(&mutex_);
  if (scratches_.empty()) return std::make_unique<ModelScratch>();
  std::unique_ptr<ModelScratch> scratch = std::move(scratches_.back());
  scratches_.pop_back();
  return scratch;
}

void TextTokenizer::ReturnScratch(std::unique_ptr<ModelScratch> scratch) const {
  absl::MutexLock lock(&mutex_);
  scratches_.push_back(std::move(scratch));
}

// `token` is the text of the model's token, in which the spaces are.
void TextTokenizer::TrimSpan(TextSpan& span, absl::string_view token, bool is_first) const {
  uint32_t leading = 0, trailing = 0;
  while (leading < token.size() && token[leading] == ' ') ++leading;
  while (trailing < token.size() && token[token.size() - 1 - trailing] == ' ') ++trailing;
  if (leading > 0 && is_first && parts_.adds_space) leading = 0;
  span.begin = std::min(span.begin + leading, span.end);
  if (span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
}

// The same for an added token that has taken spaces along.
void TextTokenizer::TrimAdded(TextSpan& span, absl::string_view text, bool is_first) const {
  const auto space_at = [&](CodePoint c) { return (CharTable::Get()[c.value] & char_is::kSpace) != 0; };
  while (!(is_first && parts_.adds_space) && span.begin < span.end && space_at(CodePointAt(text, span.begin)))
    span.begin += CodePointAt(text, span.begin).length;
  while (span.begin < span.end && space_at(CodePointBefore(text, span.end)))
    span.end -= CodePointBefore(text, span.end).length;
}

void TextTokenizer::EncodePart(AlignedText part, TokenList& out, ModelScratch& scratch) const {
  if (part.view().empty()) return;
  const auto size = static_cast<uint32_t>(part.view().size());
  SplitText split{std::move(part), {{0, size}}};
  if (parts_.pre_tokenizer != nullptr) parts_.pre_tokenizer->Apply(split);
  const size_t before = out.spans.size(), first_id = out.size();
  const bool tracks = split.text.tracks();
  parts_.model->Encode(split.text.view(), split.pieces, tracks, out, scratch);
  for (size_t i = before; i < out.spans.size(); ++i) {
    TextSpan& span = out.spans[i];
    const absl::string_view token = texts_[out.ids()[first_id + i - before]];
    if (span.begin < span.end) span = split.text.OriginOf(span.begin, span.end);
    if (parts_.trims_spans) TrimSpan(span, token, i == 0);
  }
}

void TextTokenizer::EncodeSection(AlignedText section, TokenList& out, ModelScratch& scratch) const {
  if (parts_.normalizer != nullptr) parts_.normalizer->Apply(section);
  if (normalized_.empty()) return EncodePart(std::move(section), out, scratch);
  normalized_.Split(section.view(), [&](TextSpan span, const AddedToken* token) {
    if (token == nullptr) return EncodePart(section.Slice(span.begin, span.end), out, scratch);
    out.Push(token->id);
    if (section.tracks()) out.spans.push_back(section.OriginOf(span.begin, span.end));
  });
}

void TextTokenizer::EncodeText(absl::string_view text, bool tracks, TokenList& out, ModelScratch& scratch) const {
  plain_.Split(text, [&](TextSpan span, const AddedToken* token) {
    if (token == nullptr) return EncodeSection(AlignedText(text, span, tracks), out, scratch);
    out.Push(token->id);
    if (!tracks) return;
    if (parts_.trims_spans) TrimAdded(span, text, out.size() == 1);
    out.spans.push_back(span);
  });
}

void TextTokenizer::EncodeInto(absl::string_view text, TokenList& out) const {
  std::unique_ptr<ModelScratch> scratch = TakeScratch();
  EncodeText(text, false, out, *scratch);
  ReturnScratch(std::move(scratch));
}

absl::StatusOr<EncodedText> TextTokenizer::Encode(absl::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxText)
    return absl::InvalidArgumentError(
        absl::StrCat("a text of ", text.size(), " bytes is too long to tokenise at once"));
  const size_t around = options.add_special_tokens ? parts_.prefix.size() + parts_.suffix.size() : 0;
  if (options.max_length > 0 && options.max_length < around)
    return absl::InvalidArgumentError(absl::StrCat("max_length is ", options.max_length, ", but the tokenizer adds ",
                                                   around, " special tokens to each text"));
  TokenList list;
  std::vector<TextSpan> repaired_from;
  std::unique_ptr<ModelScratch> scratch = TakeScratch();
  if (IsUtf8(text)) {
    EncodeText(text, options.spans, list, *scratch);
  } else {
    const std::string repaired = RepairUtf8(text, options.spans ? &repaired_from : nullptr);
    EncodeText(repaired, options.spans, list, *scratch);
  }
  ReturnScratch(std::move(scratch));
  for (TextSpan& span : list.spans) {
    if (!repaired_from.empty() && span.begin < span.end)
      span = {repaired_from[span.begin].begin, repaired_from[span.end - 1].end};
  }
  const size_t size = options.max_length > 0 ? std::min(list.size(), options.max_length - around) : list.size();
  const size_t from = parts_.cuts_left ? list.size() - size : 0;
  EncodedText encoded;
  encoded.ids.reserve(size + around);
  if (options.add_special_tokens) encoded.ids.assign(parts_.prefix.begin(), parts_.prefix.end());
  encoded.ids.insert(encoded.ids.end(), list.ids() + from, list.ids() + from + size);
  if (options.add_special_tokens) encoded.ids.insert(encoded.ids.end(), parts_.suffix.begin(), parts_.suffix.end());
  if (!options.spans) return encoded;
  const auto end = static_cast<uint32_t>(text.size());
  if (options.add_special_tokens) encoded.spans.resize(parts_.prefix.size());
  encoded.spans.insert(encoded.spans.end(), list.spans.begin() + static_cast<ptrdiff_t>(from),
                       list.spans.begin() + static_cast<ptrdiff_t>(from + size));
  if (options.add_special_tokens) encoded.spans.resize(encoded.ids.size(), {end, end});
  return encoded;
}

std::string TextTokenizer::Decode(absl::Span<const int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> texts;
  for (const int64_t id : ids) {
    if (id < 0 || id >= static_cast<int64_t>(texts_.size())) continue;
    const auto at = static_cast<size_t>(id);
    if (skip_special_tokens && is_special_[at]) continue;
    texts.push_back(texts_[at]);
  }
  for (const DecodeStep& step : parts_.decode_steps) step(texts);
  return RepairUtf8(absl::StrJoin(texts, ""));
}

}  // namespace composer

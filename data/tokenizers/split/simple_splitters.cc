// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/split/simple_splitters.h"

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "data/text/characters.h"
#include "data/tokenizers/split/match_splitter.h"

namespace composer {
namespace {

class BertSplitter final : public PieceSplitter {
 protected:
  void Cut(absl::string_view piece, uint32_t at, std::vector<TextSpan>& parts) const override {
    const uint16_t* const ascii = table_.first_block();
    const auto size = static_cast<uint32_t>(piece.size());
    for (uint32_t i = 0, begin = 0; i <= size;) {
      uint32_t length = 1;
      uint16_t properties = char_is::kSpace;  // beyond the end
      if (i < size) {
        const auto byte = static_cast<unsigned char>(piece[i]);
        if (byte < 0x80) {
          properties = ascii[byte];
        } else {
          const CodePoint c = CodePointAt(piece, i);
          properties = table_[c.value];
          length = c.length;
        }
      }
      if ((properties & (char_is::kSpace | char_is::kPunctuation)) != 0) {
        if (begin < i) parts.push_back({at + begin, at + i});
        if ((properties & char_is::kSpace) == 0) parts.push_back({at + i, at + i + length});
        begin = i + length;
      }
      i += length;
    }
  }

 private:
  const CharTable& table_ = CharTable::Get();
};

// Rewrites each piece; `change` writes it.
template <typename Change>
void RewritePieces(SplitText& split, Change change) {
  TextRewriter rewriter(split.text);
  std::vector<TextSpan> moved;
  for (const TextSpan piece : split.pieces) {
    const auto begin = static_cast<uint32_t>(rewriter.size());
    if (piece.begin < piece.end) change(rewriter, piece);
    moved.push_back({begin, static_cast<uint32_t>(rewriter.size())});
  }
  rewriter.Finish();
  split.pieces = std::move(moved);
}

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string mark, PrependScheme scheme, bool cuts)
      : mark_(std::move(mark)),
        scheme_(scheme),
        cut_(cuts ? MakeMatchSplitter(FindLiteral(mark_), MatchBehavior::kMergedWithNext) : nullptr) {}
  void Apply(SplitText& split) const override {
    const bool begins_text = split.text.begins_text();
    RewritePieces(split, [&](TextRewriter& out, TextSpan piece) {
      const absl::string_view text = out.from().substr(piece.begin, piece.end - piece.begin);
      const bool leads =
          scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && begins_text && piece.begin == 0);
      if (leads && text[0] != ' ' && !absl::StartsWith(text, mark_)) out.Put(mark_, piece.begin);
      for (size_t at = 0; at < text.size();) {
        const size_t space = std::min(text.find(' ', at), text.size());
        out.Keep(piece.begin + at, piece.begin + space);
        if (space < text.size()) out.Put(mark_, piece.begin + space);
        at = space + 1;
      }
    });
    if (cut_) cut_->Apply(split);
  }

 private:
  const std::string mark_;
  const PrependScheme scheme_;
  const PreTokenizerPtr cut_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  void Apply(SplitText& split) const override {
    const absl::string_view text = split.text.view();
    const auto needs_none = [&](TextSpan piece) { return piece.begin == piece.end || text[piece.begin] == ' '; };
    if (std::all_of(split.pieces.begin(), split.pieces.end(), needs_none)) return;
    RewritePieces(split, [&](TextRewriter& out, TextSpan piece) {
      if (!needs_none(piece)) out.Put(" ", piece.begin);
      out.Keep(piece.begin, piece.end);
    });
  }
};

class CutBefore final : public PieceSplitter {
 public:
  explicit CutBefore(std::string mark) : mark_(std::move(mark)) {}

 protected:
  void Cut(absl::string_view piece, uint32_t at, std::vector<TextSpan>& parts) const override {
    size_t begin = 0;
    for (size_t next = 0; next < piece.size(); begin = next) {
      next = begin;
      while (absl::StartsWith(piece.substr(next), mark_)) next += mark_.size();
      next = std::min(piece.find(mark_, next), piece.size());
      parts.push_back({at + static_cast<uint32_t>(begin), at + static_cast<uint32_t>(next)});
    }
  }

 private:
  const std::string mark_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<PreTokenizerPtr> parts) : parts_(std::move(parts)) {}
  void Apply(SplitText& split) const override {
    for (const PreTokenizerPtr& part : parts_) part->Apply(split);
  }

 private:
  const std::vector<PreTokenizerPtr> parts_;
};

}  // namespace

PreTokenizerPtr MakeBertSplitter() { return std::make_unique<BertSplitter>(); }
PreTokenizerPtr MakeMetaspace(std::string mark, PrependScheme scheme, bool cuts) {
  return std::make_unique<Metaspace>(std::move(mark), scheme, cuts);
}
PreTokenizerPtr MakePrefixSpace() { return std::make_unique<PrefixSpace>(); }
PreTokenizerPtr MakeCutBefore(std::string mark) { return std::make_unique<CutBefore>(std::move(mark)); }
PreTokenizerPtr MakeSequence(std::vector<PreTokenizerPtr> parts) {
  return std::make_unique<PreTokenizerSequence>(std::move(parts));
}

}  // namespace composer

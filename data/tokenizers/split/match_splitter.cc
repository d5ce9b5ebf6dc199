// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizers/split/match_splitter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "data/text/characters.h"
#include "data/text/double_array.h"
#include "data/text/regex.h"

namespace composer {
namespace {

struct Part {
  TextSpan span;
  bool is_match;
};

// Merges each match that follows no match with the part before it.
std::vector<Part> MergedWithPrevious(const std::vector<Part>& parts) {
  std::vector<Part> merged;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.is_match && !after_match && !merged.empty()) {
      merged.back().span.end = part.span.end;
    } else {
      merged.push_back(part);
    }
    after_match = part.is_match;
  }
  return merged;
}

std::vector<Part> MergedWithNext(const std::vector<Part>& parts) {
  std::vector<Part> merged;  // from the last to the first
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_match && !before_match && !merged.empty()) {
      merged.back().span.begin = part->span.begin;
    } else {
      merged.push_back(*part);
    }
    before_match = part->is_match;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

std::vector<Part> Contiguous(const std::vector<Part>& parts) {
  std::vector<Part> merged;
  for (const Part& part : parts) {
    if (!merged.empty() && merged.back().is_match == part.is_match) {
      merged.back().span.end = part.span.end;
    } else {
      merged.push_back(part);
    }
  }
  return merged;
}

class MatchSplitter final : public PieceSplitter {
 public:
  MatchSplitter(MatchFinder find, MatchBehavior behavior, bool inverted)
      : find_(std::move(find)), behavior_(behavior), inverted_(inverted) {}

 protected:
  void Cut(absl::string_view piece, uint32_t at, std::vector<TextSpan>& out) const override {
    std::vector<TextSpan> matches;
    find_(piece, matches);
    std::vector<Part> parts;
    uint32_t end = 0;
    const auto add = [&](uint32_t begin, uint32_t stop, bool is_match) {
      if (begin < stop) parts.push_back({{begin, stop}, is_match != inverted_});
    };
    for (const TextSpan match : matches) {
      add(end, match.begin, false);
      add(match.begin, match.end, true);
      end = match.end;
    }
    add(end, static_cast<uint32_t>(piece.size()), false);
    if (behavior_ == MatchBehavior::kMergedWithPrevious) parts = MergedWithPrevious(parts);
    if (behavior_ == MatchBehavior::kMergedWithNext) parts = MergedWithNext(parts);
    if (behavior_ == MatchBehavior::kContiguous) parts = Contiguous(parts);
    for (const Part& part : parts) {
      if (behavior_ == MatchBehavior::kRemoved && part.is_match) continue;
      out.push_back({at + part.span.begin, at + part.span.end});
    }
  }

 private:
  const MatchFinder find_;
  const MatchBehavior behavior_;
  const bool inverted_;
};

}  // namespace

PreTokenizerPtr MakeMatchSplitter(MatchFinder find, MatchBehavior behavior, bool inverted) {
  return std::make_unique<MatchSplitter>(std::move(find), behavior, inverted);
}

MatchFinder FindCharacters(uint16_t properties) {
  return [properties](absl::string_view text, std::vector<TextSpan>& matches) {
    const CharTable& table = CharTable::Get();
    for (uint32_t at = 0; at < text.size();) {
      const CodePoint c = CodePointAt(text, at);
      if ((table[c.value] & properties) != 0) matches.push_back({at, at + c.length});
      at += c.length;
    }
  };
}

MatchFinder FindLiteral(std::string literal) {
  return [literal = std::move(literal)](absl::string_view text, std::vector<TextSpan>& matches) {
    for (size_t at = text.find(literal); at != absl::string_view::npos; at = text.find(literal, at + literal.size()))
      matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + literal.size())});
  };
}

MatchFinder FindLongest(const std::vector<std::string>& texts) {
  std::vector<std::pair<absl::string_view, int32_t>> keys;
  for (const std::string& text : texts) keys.emplace_back(text, 0);
  return [trie = DoubleArray(std::move(keys))](absl::string_view text, std::vector<TextSpan>& matches) {
    for (uint32_t at = 0; at < text.size();) {
      uint32_t node = DoubleArray::kRoot, longest = at;
      for (uint32_t end = at; end < text.size() && trie.Step(node, text[end]);) {
        ++end;
        if (trie.value(node) >= 0) longest = end;
      }
      if (longest > at) matches.push_back({at, longest});
      at = longest > at ? longest : at + 1;
    }
  };
}

MatchFinder FindRegex(std::shared_ptr<const Regex> regex) {
  return [regex = std::move(regex)](absl::string_view text, std::vector<TextSpan>& matches) {
    for (size_t at = 0; at < text.size();) {
      const auto match = regex->Find(text, at);
      if (!match) return;
      if (match->begin < match->end) matches.push_back(*match);
      at = match->end > match->begin
               ? match->end
               : match->end + (match->end < text.size() ? CodePointAt(text, match->end).length : 1);
    }
  };
}

MatchFinder FindWordsAndSymbols() {
  return [](absl::string_view text, std::vector<TextSpan>& matches) {
    const CharTable& table = CharTable::Get();
    uint16_t before = char_is::kSpace;
    for (uint32_t at = 0; at < text.size();) {
      const CodePoint c = CodePointAt(text, at);
      const auto kind = static_cast<uint16_t>(table[c.value] & (char_is::kWord | char_is::kSpace));
      if (kind != char_is::kSpace) {
        if (kind == before && !matches.empty()) {
          matches.back().end = at + c.length;
        } else {
          matches.push_back({at, at + c.length});
        }
      }
      before = kind;
      at += c.length;
    }
  };
}

}  // namespace composer

// Text that is rewritten step by step (normalised, spaces replaced) and knows, for each of its bytes, which bytes of
// the original text it stands for. Text that nobody changes is not copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// Bytes [begin, end) of a text.
struct TextSpan {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

class AlignedText {
 public:
  // The bytes `range` of `original`, which must outlive this. Without `tracks`, nobody asks where bytes come from.
  AlignedText(absl::string_view original, TextSpan range, bool tracks)
      : source_(original.substr(range.begin, range.end - range.begin)),
        at_(range.begin),
        begins_text_(range.begin == 0),
        tracks_(tracks) {}
  absl::string_view view() const { return is_owned_ ? absl::string_view(owned_) : source_; }
  bool tracks() const { return tracks_; }
  // Whether the first byte stands for the original text's beginning.
  bool begins_text() const { return begins_text_; }
  // Returns bytes [begin, end) as they are now.
  AlignedText Slice(uint32_t begin, uint32_t end) const;
  // Returns the bytes of the original text that bytes [begin, end), begin < end, stand for. Where bytes are those of
  // the original, the span is widened to whole characters. {0, 0} when rewriting has forgotten it.
  TextSpan OriginOf(uint32_t begin, uint32_t end) const;

 private:
  friend class TextRewriter;
  absl::string_view source_;
  uint32_t at_;  // of source_ in the original text
  bool begins_text_;
  bool tracks_;
  bool is_owned_ = false;
  std::string owned_;
  std::vector<TextSpan> origins_;  // of each byte, when is_owned_ and tracks_
};

// Writes the next version of a text from its beginning to its end.
class TextRewriter {
 public:
  explicit TextRewriter(AlignedText& text) : text_(text), from_(text.view()) { next_.reserve(from_.size() + 16); }
  absl::string_view from() const { return from_; }
  // Keeps bytes [begin, end) of the old text as they are.
  void Keep(size_t begin, size_t end) {
    NoteFirst(begin, end - begin);
    next_.append(from_.data() + begin, end - begin);
    if (text_.tracks_) KeepOrigins(begin, end);
  }
  // `with` stands for what the character at byte `at` of the old text stands for.
  void Put(absl::string_view with, size_t at) {
    NoteFirst(at, with.size());
    next_.append(with.data(), with.size());
    if (text_.tracks_) PutOrigins(with.size(), at);
  }
  // Keeps bytes [begin, end), each replaced by table[byte].
  void KeepMapped(size_t begin, size_t end, const char* table) {
    NoteFirst(begin, end - begin);
    const size_t at = next_.size();
    next_.append(from_.data() + begin, end - begin);
    for (char* byte = next_.data() + at; byte != next_.data() + next_.size(); ++byte)
      *byte = table[static_cast<unsigned char>(*byte)];
    if (text_.tracks_) KeepOrigins(begin, end);
  }
  size_t size() const { return next_.size(); }
  absl::string_view written() const { return next_; }
  // Forgets the last bytes that were written.
  void DropLast(size_t bytes) {
    next_.resize(next_.size() - bytes);
    if (text_.tracks_) origins_.resize(next_.size());
  }
  // The text becomes what was written.
  void Finish();

 private:
  void NoteFirst(size_t at, size_t count) {
    if (next_.empty() && count > 0) begins_text_ = at == 0;
  }
  void KeepOrigins(size_t begin, size_t end);
  void PutOrigins(size_t count, size_t at);

  AlignedText& text_;
  const absl::string_view from_;
  bool begins_text_ = true;  // what is written first comes from the old text's beginning
  std::string next_;
  std::vector<TextSpan> origins_;
};

}  // namespace composer

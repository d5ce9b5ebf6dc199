// Runs the readers of tokenizer files on arbitrary bytes, and what they accept on a text: spans must lie in the text.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>

#include "data/tokenizers/files/tokenizer_files.h"

namespace {

void TryTokenizer(absl::StatusOr<composer::TokenizerParts> parts, absl::string_view text) {
  if (!parts.ok()) return;
  const auto tokenizer = composer::TextTokenizer::Create(*std::move(parts));
  if (!tokenizer.ok()) return;
  const auto encoded = (*tokenizer)->Encode(text, {.spans = true});
  if (!encoded.ok()) return;
  if (encoded->ids.size() != encoded->spans.size()) std::abort();
  for (const composer::TextSpan span : encoded->spans) {
    if (span.begin > span.end || span.end > text.size()) std::abort();
  }
  (void)(*tokenizer)->Decode(encoded->ids, false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // The text is the end of the bytes, so that both can change.
  const absl::string_view text = bytes.substr(bytes.size() - bytes.size() / 4);
  switch (data[0] % 6) {
    case 0:
      TryTokenizer(composer::ParseTokenizerJson(bytes), "Hello w\xc3\xb6rld, 123  \xe2\x96\x81!\n");
      break;
    case 1:
      TryTokenizer(composer::ParseSentencePiece(bytes), "Hello w\xc3\xb6rld \xff");
      break;
    case 2:
      TryTokenizer(composer::ParseTiktoken(bytes, composer::GptPattern::kO200k, {"<s>"}), text);
      break;
    case 3:
      TryTokenizer(composer::ParseVocabTxt(bytes, true), text);
      break;
    case 4:
      TryTokenizer(composer::ParseTiktoken("YQ== 0\nYg== 1\nYWI= 2\n", composer::GptPattern::kO200k, {}), bytes);
      break;
    default:
      TryTokenizer(composer::ParseVocabTxt("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n##b\n", true), bytes);
  }
  return 0;
}

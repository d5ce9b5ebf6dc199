// Tokenizers.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kTokenizerKeys[] = R"(
[tokenizer bytes] A token for each byte of the text.
eos | bool | false | A token 256 ends a text.

[tokenizer hf] A published model's tokenizer, from its files (docs/tokenizers.md).
path | text 1.. | required | A folder, or tokenizer.json, vocab.txt, vocab.json, a .model or a .tiktoken file.
pattern | one of gpt2, cl100k, qwen2, o200k | cl100k | How a .tiktoken file's texts are cut into words.
special | texts | [] | Of a .tiktoken file: the special tokens behind its largest rank, in order.
bos | text 1.. | (as the files say) | The token that begins a text.
eos | text 1.. | (as the files say) | The token that ends a text.
pad | text 1.. | (as the files say) | The token that fills rows.
unk | text 1.. | (as the files say) | The token for what is unknown.
mask | text 1.. | (as the files say) | The token in place of a masked one.
cls | text 1.. | (as the files say) | The token whose output stands for the text.
sep | text 1.. | (as the files say) | The token between two texts.
)";

}  // namespace composer

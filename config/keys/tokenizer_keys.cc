// Tokenizers.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kTokenizerKeys[] = R"(
[tokenizer bytes] A token for each byte of the text.
eos | bool | false | A token 256 ends a text.
)";

}  // namespace composer

// The components of a tokenizer.json, each from its JSON object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizers/files/json_fields.h"
#include "data/tokenizers/text_tokenizer.h"

namespace composer {

// Of components inside components. kInvalidArgument: they are nested too deeply to be read.
inline absl::Status CheckDepth(const std::string& path) {
  return path.size() < 500 ? absl::OkStatus()
                           : absl::InvalidArgumentError(path.substr(0, 60) + "…: is nested too deeply");
}

// All: kInvalidArgument names the field that is not supported. `path` is the object's place in its file.
absl::StatusOr<NormalizerPtr> ReadNormalizer(const JsonFields::Json& json, const std::string& path);

struct PreTokenizerRead {
  PreTokenizerPtr pre_tokenizer;
  bool of_bytes = false;  // it ends with ByteLevel: the model's symbols are bytes
};
absl::StatusOr<PreTokenizerRead> ReadPreTokenizer(const JsonFields::Json& json, const std::string& path);

// With `of_bytes` the tokens' characters are ByteLevel's, which stand for bytes.
absl::StatusOr<std::unique_ptr<const TokenModel>> ReadModel(const JsonFields::Json& json, bool of_bytes);

// Fills prefix, suffix, trims_spans, adds_space and the special tokens cls and sep.
absl::Status ReadPostProcessor(const JsonFields::Json& json, const std::string& path, TokenizerParts& parts);

// Fills decode_steps. `of_bytes`: the decoder must have ByteLevel.
absl::Status ReadDecoder(const JsonFields::Json& json, const std::string& path, TokenizerParts& parts);

// A `pattern`: {"String": …} or {"Regex": …}.
using FoundSpans = std::function<void(absl::string_view text, std::vector<TextSpan>& matches)>;
absl::StatusOr<FoundSpans> ReadPattern(JsonFields& fields);

}  // namespace composer

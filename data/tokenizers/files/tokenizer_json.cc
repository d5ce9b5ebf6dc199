// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/json_parts.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "data/tokenizers/model/bpe.h"
#include "data/tokenizers/split/simple_splitters.h"

namespace composer {
namespace {

using Json = JsonFields::Json;
constexpr char kWordMark[] = "\xe2\x96\x81";  // U+2581

absl::Status ReadAddedTokens(const Json& list, TokenizerParts& parts) {
  if (!list.is_array()) return absl::InvalidArgumentError("added_tokens: must be a list");
  for (const Json& item : list) {
    JsonFields fields(item, absl::StrCat("added_tokens[", parts.added.size(), "]"));
    AddedToken token;
    token.content = fields.Text("content");
    token.special = fields.Bool("special", false);
    token.single_word = fields.Bool("single_word", false);
    token.lstrip = fields.Bool("lstrip", false);
    token.rstrip = fields.Bool("rstrip", false);
    token.normalized = fields.Bool("normalized", !token.special);
    const uint64_t id = fields.Number("id", ~uint64_t{0});
    if (id >= Vocabulary::kMaxTokens) fields.Reject("id", "must be the number of a token");
    token.id = static_cast<uint32_t>(id);
    RETURN_IF_ERROR(fields.Done());
    parts.added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

bool ReadSide(JsonFields& fields) {
  const std::string side = fields.Text("direction", "Right");
  if (side != "Right" && side != "Left") fields.Reject("direction", "must be Left or Right");
  return side == "Left";
}

absl::Status ReadTruncation(const Json& json, TokenizerParts& parts) {
  JsonFields fields(json, "truncation");
  parts.cuts_left = ReadSide(fields);
  fields.Ignore({"max_length", "strategy", "stride"});
  return fields.Done();
}

absl::Status ReadPadding(const Json& json, TokenizerParts& parts) {
  JsonFields fields(json, "padding");
  parts.pads_left = ReadSide(fields);
  const uint64_t pad = fields.Number("pad_id", 0);
  if (pad >= Vocabulary::kMaxTokens) fields.Reject("pad_id", "must be the number of a token");
  parts.special["pad"] = static_cast<uint32_t>(pad);
  fields.Ignore({"strategy", "pad_to_multiple_of", "pad_type_id", "pad_token"});
  return fields.Done();
}

// BPE over a whole text is cut where no merge can cross, which changes nothing but the time it takes.
void CutLongTexts(const Json& model, TokenizerParts& parts) {
  if (parts.pre_tokenizer != nullptr || !model.contains("merges") || model.value("ignore_merges", false)) return;
  const Vocabulary& vocabulary = parts.model->vocabulary();
  if (vocabulary.Find(kWordMark) && OnlyLeads(vocabulary, kWordMark)) parts.pre_tokenizer = MakeCutBefore(kWordMark);
}

}  // namespace

absl::StatusOr<TokenizerParts> ParseTokenizerJson(absl::string_view text) {
  const Json json = ParseJson(text);
  if (json.is_discarded()) return absl::InvalidArgumentError("this is not JSON");
  JsonFields fields(json, "");
  TokenizerParts parts;
  fields.Ignore({"version"});
  if (const Json* normalizer = fields.Child("normalizer")) {
    ASSIGN_OR_RETURN(parts.normalizer, ReadNormalizer(*normalizer, "normalizer"));
  }
  if (const Json* pre_tokenizer = fields.Child("pre_tokenizer")) {
    ASSIGN_OR_RETURN(PreTokenizerRead read, ReadPreTokenizer(*pre_tokenizer, "pre_tokenizer"));
    parts.pre_tokenizer = std::move(read.pre_tokenizer);
    parts.of_bytes = read.of_bytes;
  }
  const Json* model = fields.Child("model");
  if (model == nullptr) return absl::InvalidArgumentError("model: is missing");
  ASSIGN_OR_RETURN(parts.model, ReadModel(*model, parts.of_bytes));
  if (const auto unknown = model->find("unk_token"); unknown != model->end() && unknown->is_string()) {
    if (const auto id = parts.model->vocabulary().Find(unknown->get<std::string>())) parts.special["unk"] = *id;
  }
  if (const Json* added = fields.Child("added_tokens")) RETURN_IF_ERROR(ReadAddedTokens(*added, parts));
  if (const Json* processor = fields.Child("post_processor"))
    RETURN_IF_ERROR(ReadPostProcessor(*processor, "post_processor", parts));
  // CLIP's words end with a suffix among bytes, which its decoder in Python makes a space.
  const std::string suffix = model->value("end_of_word_suffix", Json()).is_string() && parts.of_bytes
                                 ? model->at("end_of_word_suffix").get<std::string>()
                                 : "";
  if (!suffix.empty()) parts.decode_steps.push_back(DecodeWordEnd(suffix));
  if (const Json* decoder = fields.Child("decoder")) {
    RETURN_IF_ERROR(ReadDecoder(*decoder, "decoder", parts));
  } else if (parts.of_bytes) {
    return absl::InvalidArgumentError("decoder: a pre-tokenizer ByteLevel needs a decoder ByteLevel");
  } else {
    parts.decode_steps.push_back(DecodeSpaced());
  }
  if (const Json* truncation = fields.Child("truncation")) RETURN_IF_ERROR(ReadTruncation(*truncation, parts));
  if (const Json* padding = fields.Child("padding")) RETURN_IF_ERROR(ReadPadding(*padding, parts));
  RETURN_IF_ERROR(fields.Done());
  CutLongTexts(*model, parts);
  return parts;
}

}  // namespace composer

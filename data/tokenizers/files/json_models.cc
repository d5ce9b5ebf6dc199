// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/bpe_parts.h"
#include "data/tokenizers/files/json_parts.h"
#include "data/tokenizers/model/bpe.h"
#include "data/tokenizers/model/unigram.h"
#include "data/tokenizers/model/wordpiece.h"

namespace composer {
namespace {

using Json = JsonFields::Json;
using Model = std::unique_ptr<const TokenModel>;

absl::StatusOr<TokenNumbers> ReadVocab(JsonFields& fields) {
  TokenNumbers tokens;
  const Json* vocab = fields.Child("vocab");
  if (vocab == nullptr || !vocab->is_object())
    return absl::InvalidArgumentError("model.vocab: must be an object of tokens and numbers");
  for (const auto& [token, id] : vocab->items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= Vocabulary::kMaxTokens)
      return absl::InvalidArgumentError(absl::StrCat("model.vocab: the number of `", token.substr(0, 100), "` is ",
                                                     id.is_number() ? id.dump() : id.type_name()));
    tokens.emplace_back(token, id.get<uint32_t>());
  }
  return tokens;
}

// A merge is "left right" or ["left", "right"].
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ReadMerges(JsonFields& fields) {
  std::vector<std::pair<std::string, std::string>> merges;
  const Json* list = fields.Child("merges");
  if (list == nullptr || !list->is_array()) return absl::InvalidArgumentError("model.merges: must be a list");
  for (const Json& item : *list) {
    if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      merges.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
      continue;
    }
    const std::string text = item.is_string() ? item.get<std::string>() : "";
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("model.merges[", merges.size(), "]: must be two tokens with a space between"));
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

std::optional<uint32_t> FindUnknown(JsonFields& fields, const Vocabulary& vocabulary, const std::string& token) {
  const auto id = vocabulary.Find(token);
  if (!id) fields.Reject("unk_token", absl::StrCat("`", token.substr(0, 100), "` is not in the vocabulary"));
  return id;
}

absl::StatusOr<Model> ReadBpe(JsonFields& fields, bool of_bytes) {
  BpeOptions options;
  options.of_bytes = of_bytes;
  if (const Json* dropout = fields.Child("dropout"); dropout != nullptr && *dropout != 0.0)
    fields.Reject("dropout", "is not supported");
  options.fuse_unknown = fields.Bool("fuse_unk", false);
  options.byte_fallback = fields.Bool("byte_fallback", false);
  options.ignore_merges = fields.Bool("ignore_merges", false);
  options.continuing_prefix = fields.Text("continuing_subword_prefix", "");
  options.end_suffix = fields.Text("end_of_word_suffix", "");
  const std::string unknown = fields.Text("unk_token", "");
  if (of_bytes && (!options.continuing_prefix.empty() || options.byte_fallback)) options.of_bytes = false;
  ASSIGN_OR_RETURN(TokenNumbers tokens, ReadVocab(fields));
  ASSIGN_OR_RETURN(const auto merges, ReadMerges(fields));
  if (of_bytes && !options.of_bytes)
    fields.Reject("", "a pre-tokenizer ByteLevel with continuing_subword_prefix or byte_fallback is not supported");
  if (of_bytes) TokensToBytes(tokens);
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  if (!unknown.empty()) options.unknown = FindUnknown(fields, vocabulary, unknown);
  ASSIGN_OR_RETURN(const std::vector<BpeMerge> numbers,
                   MergesByNumber(vocabulary, merges, of_bytes, options.continuing_prefix));
  return std::make_unique<BpeModel>(std::move(vocabulary), numbers, std::move(options));
}

absl::StatusOr<Model> ReadWordPiece(JsonFields& fields) {
  const std::string unknown = fields.Text("unk_token", "[UNK]");
  const std::string prefix = fields.Text("continuing_subword_prefix", "##");
  const uint64_t most = fields.Number("max_input_chars_per_word", 100);
  ASSIGN_OR_RETURN(TokenNumbers tokens, ReadVocab(fields));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  const uint32_t unk = FindUnknown(fields, vocabulary, unknown).value_or(0);
  return std::make_unique<WordPieceModel>(std::move(vocabulary), unk, prefix, most);
}

absl::StatusOr<Model> ReadWordLevel(JsonFields& fields) {
  const std::string unknown = fields.Text("unk_token");
  ASSIGN_OR_RETURN(TokenNumbers tokens, ReadVocab(fields));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  const uint32_t unk = FindUnknown(fields, vocabulary, unknown).value_or(0);
  return std::make_unique<WordLevelModel>(std::move(vocabulary), unk);
}

absl::StatusOr<Model> ReadUnigram(JsonFields& fields) {
  UnigramOptions options;
  TokenNumbers tokens;
  std::vector<double> scores;
  const Json* vocab = fields.Child("vocab");
  if (vocab == nullptr || !vocab->is_array() || vocab->size() > Vocabulary::kMaxTokens)
    return absl::InvalidArgumentError("model.vocab: must be a list of tokens with their scores");
  for (const Json& item : *vocab) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
      return absl::InvalidArgumentError(
          absl::StrCat("model.vocab[", tokens.size(), "]: must be a token and its score"));
    tokens.emplace_back(item[0].get<std::string>(), static_cast<uint32_t>(tokens.size()));
    scores.push_back(item[1].get<double>());
  }
  options.byte_fallback = fields.Bool("byte_fallback", false);
  if (fields.Child("unk_id") != nullptr)
    options.unknown = static_cast<uint32_t>(std::min<uint64_t>(fields.Number("unk_id", 0), 0xffffffff));
  if (options.unknown && *options.unknown >= tokens.size()) fields.Reject("unk_id", "is not in the vocabulary");
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(std::move(tokens)));
  return std::make_unique<UnigramModel>(std::move(vocabulary), std::move(scores), options);
}

// Old files have no type.
std::string TypeOf(const Json& json, JsonFields& fields) {
  const std::string type = fields.Text("type", "");
  if (!type.empty() || !json.is_object()) return type;
  if (json.contains("merges")) return "BPE";
  if (json.contains("vocab") && json["vocab"].is_array()) return "Unigram";
  return json.contains("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

absl::StatusOr<Model> ModelOfType(const std::string& type, JsonFields& fields, bool of_bytes) {
  if (type == "BPE") return ReadBpe(fields, of_bytes);
  if (of_bytes)
    fields.Reject("type", absl::StrCat("`", type.substr(0, 50), "` behind ByteLevel is not supported; BPE is"));
  if (type == "WordPiece") return ReadWordPiece(fields);
  if (type == "WordLevel") return ReadWordLevel(fields);
  if (type == "Unigram") return ReadUnigram(fields);
  fields.Reject("type",
                absl::StrCat("`", type.substr(0, 50), "` is not supported; BPE, WordPiece, WordLevel and Unigram are"));
  return nullptr;
}

}  // namespace

absl::StatusOr<Model> ReadModel(const Json& json, bool of_bytes) {
  JsonFields fields(json, "model");
  absl::StatusOr<Model> model = ModelOfType(TypeOf(json, fields), fields, of_bytes);
  if (!model.ok()) return model;
  RETURN_IF_ERROR(fields.Done());
  return model;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/json_parts.h"

namespace composer {
namespace {

using Json = JsonFields::Json;

// Reads ["[SEP]", 102].
uint32_t ReadTokenPair(JsonFields& fields, const char* key) {
  const Json* pair = fields.Child(key);
  if (pair != nullptr && pair->is_array() && pair->size() == 2 && (*pair)[0].is_string() &&
      (*pair)[1].is_number_unsigned() && (*pair)[1].get<uint64_t>() < Vocabulary::kMaxTokens)
    return (*pair)[1].get<uint32_t>();
  fields.Reject(key, "must be a token and its number");
  return 0;
}

void AddClsAndSep(JsonFields& fields, TokenizerParts& parts) {
  const uint32_t cls = ReadTokenPair(fields, "cls"), sep = ReadTokenPair(fields, "sep");
  parts.prefix.insert(parts.prefix.begin(), cls);
  parts.suffix.push_back(sep);
  parts.special.try_emplace("cls", cls);
  parts.special.try_emplace("sep", sep);
}

// Appends the numbers of a template's special token.
absl::Status AddSpecial(const Json& item, const Json& tokens, const std::string& path, std::vector<uint32_t>& ids) {
  const std::string name = item.contains("id") && item["id"].is_string() ? item["id"].get<std::string>() : "";
  const Json* token = tokens.is_object() && tokens.contains(name) ? &tokens[name] : nullptr;
  if (token == nullptr || !token->is_object() || !token->contains("ids") || !(*token)["ids"].is_array())
    return absl::InvalidArgumentError(absl::StrCat(path, ".special_tokens: `", name.substr(0, 100), "` has no ids"));
  for (const Json& id : (*token)["ids"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= Vocabulary::kMaxTokens)
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".special_tokens: an id of `", name.substr(0, 100), "` is not the number of a token"));
    ids.push_back(id.get<uint32_t>());
  }
  return absl::OkStatus();
}

// Of a template for one text: special tokens, the text A, special tokens.
absl::Status ReadTemplate(JsonFields& fields, const std::string& path, TokenizerParts& parts) {
  const Json* single = fields.Child("single");
  const Json* tokens = fields.Child("special_tokens");
  fields.Ignore({"pair"});
  if (single == nullptr || !single->is_array()) {
    fields.Reject("single", "must be a list");
    return absl::OkStatus();
  }
  static const Json* const kNone = new Json(Json::object());
  std::vector<uint32_t> before, after;
  int texts = 0;
  for (const Json& item : *single) {
    if (item.is_object() && item.contains("Sequence")) {
      ++texts;
    } else if (item.is_object() && item.contains("SpecialToken")) {
      RETURN_IF_ERROR(
          AddSpecial(item["SpecialToken"], tokens == nullptr ? *kNone : *tokens, path, texts == 0 ? before : after));
    } else {
      fields.Reject("single", "its items must be Sequence or SpecialToken");
    }
  }
  if (texts != 1) fields.Reject("single", "must have the text once");
  parts.prefix.insert(parts.prefix.begin(), before.begin(), before.end());
  parts.suffix.insert(parts.suffix.end(), after.begin(), after.end());
  return absl::OkStatus();
}

absl::Status ReadProcessors(JsonFields& fields, const std::string& path, TokenizerParts& parts) {
  const Json* list = fields.Child("processors");
  if (list == nullptr || !list->is_array()) {
    fields.Reject("processors", "must be a list");
    return absl::OkStatus();
  }
  size_t i = 0;
  for (const Json& item : *list)
    RETURN_IF_ERROR(ReadPostProcessor(item, absl::StrCat(path, ".processors[", i++, "]"), parts));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadPostProcessor(const Json& json, const std::string& path, TokenizerParts& parts) {
  RETURN_IF_ERROR(CheckDepth(path));
  JsonFields fields(json, path);
  const std::string type = fields.Text("type");
  if (type == "TemplateProcessing") {
    RETURN_IF_ERROR(ReadTemplate(fields, path, parts));
  } else if (type == "BertProcessing") {
    AddClsAndSep(fields, parts);
  } else if (type == "RobertaProcessing") {
    AddClsAndSep(fields, parts);
    parts.trims_spans = fields.Bool("trim_offsets", true);
    parts.adds_space = fields.Bool("add_prefix_space", true);
  } else if (type == "ByteLevel") {
    parts.adds_space = fields.Bool("add_prefix_space", true);
    parts.trims_spans = fields.Bool("trim_offsets", true);
    fields.Ignore({"use_regex"});
  } else if (type == "Sequence") {
    RETURN_IF_ERROR(ReadProcessors(fields, path, parts));
  } else {
    fields.Reject(
        "type",
        absl::StrCat(
            "`", type.substr(0, 50),
            "` is not supported; TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence are"));
  }
  return fields.Done();
}

}  // namespace composer

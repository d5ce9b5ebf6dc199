// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "data/tokenizers/files/tokenizer_files.h"

namespace composer {
namespace {

using Json = nlohmann::json;

// A special token is a text, or an object with its `content`.
std::string ContentOf(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return "";
}

std::optional<uint32_t> IdOf(const TokenizerParts& parts, const std::string& content) {
  for (const AddedToken& token : parts.added) {
    if (token.content == content) return token.id;
  }
  return parts.model->vocabulary().Find(content);
}

// Adds the token in front or behind, if the file asks for it and it is not there.
void AddAround(const Json& json, const char* key, const char* name, bool in_front, TokenizerParts& parts) {
  const auto wanted = json.find(key);
  const auto token = parts.special.find(name);
  if (wanted == json.end() || !wanted->is_boolean() || token == parts.special.end()) return;
  std::vector<uint32_t>& ids = in_front ? parts.prefix : parts.suffix;
  const bool is_there = std::find(ids.begin(), ids.end(), token->second) != ids.end();
  if (wanted->get<bool>() && !is_there) ids.insert(in_front ? ids.begin() : ids.end(), token->second);
}

}  // namespace

absl::Status ApplyTokenizerConfig(absl::string_view text, TokenizerParts& parts) {
  const Json json = ParseJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError("must be a JSON object");
  for (const char* name : {"bos", "eos", "pad", "unk", "mask", "cls", "sep"}) {
    const std::string key = absl::StrCat(name, "_token");
    const std::string content = json.contains(key) ? ContentOf(json[key]) : "";
    if (content.empty()) continue;
    const auto id = IdOf(parts, content);
    if (!id)
      return absl::InvalidArgumentError(absl::StrCat(key, ": `", content.substr(0, 100), "` is not in the vocabulary"));
    parts.special[name] = *id;
  }
  AddAround(json, "add_bos_token", "bos", true, parts);
  AddAround(json, "add_eos_token", "eos", false, parts);
  if (json.value("padding_side", Json()) == "left") parts.pads_left = true;
  if (json.value("truncation_side", Json()) == "left") parts.cuts_left = true;
  return absl::OkStatus();
}

}  // namespace composer

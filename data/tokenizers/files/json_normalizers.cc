// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/regex.h"
#include "data/tokenizers/files/json_parts.h"
#include "data/tokenizers/normalize/charsmap.h"
#include "data/tokenizers/normalize/rewriting.h"
#include "data/tokenizers/normalize/unicode_form.h"
#include "data/tokenizers/split/match_splitter.h"

namespace composer {
namespace {

constexpr char kNormalizers[] =
    "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Nmt, BertNormalizer, Replace, Prepend, Precompiled and "
    "Sequence";

absl::StatusOr<NormalizerPtr> ReadPrecompiled(JsonFields& fields) {
  std::string bytes;
  if (const auto* text = fields.Child("precompiled_charsmap"); text != nullptr) {
    if (!text->is_string() || !absl::Base64Unescape(text->get<std::string>(), &bytes))
      fields.Reject("precompiled_charsmap", "must be a text in base64");
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Charsmap> map, Charsmap::Parse(bytes));
  return MakePrecompiled(std::move(map));
}

absl::StatusOr<NormalizerPtr> ReadNormalizerSequence(JsonFields& fields, const std::string& path) {
  std::vector<NormalizerPtr> parts;
  const auto* list = fields.Child("normalizers");
  if (list == nullptr || !list->is_array()) {
    fields.Reject("normalizers", "must be a list");
    return nullptr;
  }
  for (const auto& item : *list) {
    ASSIGN_OR_RETURN(NormalizerPtr part, ReadNormalizer(item, absl::StrCat(path, ".normalizers[", parts.size(), "]")));
    parts.push_back(std::move(part));
  }
  return MakeNormalizerSequence(std::move(parts));
}

absl::StatusOr<NormalizerPtr> ReadReplace(JsonFields& fields) {
  ASSIGN_OR_RETURN(FoundSpans find, ReadPattern(fields));
  return MakeReplace(std::move(find), fields.Text("content"));
}

NormalizerPtr ReadBert(JsonFields& fields) {
  BertNormalizerOptions options;
  options.clean_text = fields.Bool("clean_text", true);
  options.handle_chinese_chars = fields.Bool("handle_chinese_chars", true);
  options.lowercase = fields.Bool("lowercase", true);
  options.strip_accents = fields.Bool("strip_accents", options.lowercase);  // null: as lowercase
  return MakeBertNormalizer(options);
}

absl::StatusOr<NormalizerPtr> NormalizerOfType(const std::string& type, JsonFields& fields, const std::string& path) {
  if (type == "NFC") return MakeUnicodeForm(UnicodeForm::kNfc);
  if (type == "NFD") return MakeUnicodeForm(UnicodeForm::kNfd);
  if (type == "NFKC") return MakeUnicodeForm(UnicodeForm::kNfkc);
  if (type == "NFKD") return MakeUnicodeForm(UnicodeForm::kNfkd);
  if (type == "Lowercase") return MakeLowercase();
  if (type == "StripAccents") return MakeStripAccents();
  if (type == "Nmt") return MakeNmt();
  if (type == "Strip") {
    const bool left = fields.Bool("strip_left", true);
    return MakeStrip(left, fields.Bool("strip_right", true));
  }
  if (type == "BertNormalizer") return ReadBert(fields);
  if (type == "Replace") return ReadReplace(fields);
  if (type == "Prepend") return MakePrepend(fields.Text("prepend"));
  if (type == "Precompiled") return ReadPrecompiled(fields);
  if (type == "Sequence") return ReadNormalizerSequence(fields, path);
  fields.Reject("type", absl::StrCat("`", type.substr(0, 50), "` is not supported; ", kNormalizers, " are"));
  return nullptr;
}

}  // namespace

absl::StatusOr<FoundSpans> ReadPattern(JsonFields& fields) {
  const auto* pattern = fields.Child("pattern");
  if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1 || !pattern->begin()->is_string()) {
    fields.Reject("pattern", "must be {\"String\": …} or {\"Regex\": …}");
    return FoundSpans();
  }
  const std::string text = pattern->begin()->get<std::string>();
  if (pattern->begin().key() == "String" && !text.empty()) return FindLiteral(text);
  if (pattern->begin().key() == "Regex") {
    const auto regex = Regex::Compile(text);
    if (regex.ok()) return FindRegex(*regex);
    fields.Reject("pattern", regex.status().message());
  }
  fields.Reject("pattern", "must be {\"String\": …} or {\"Regex\": …}, not empty");
  return FoundSpans();
}

absl::StatusOr<NormalizerPtr> ReadNormalizer(const JsonFields::Json& json, const std::string& path) {
  RETURN_IF_ERROR(CheckDepth(path));
  JsonFields fields(json, path);
  const std::string type = fields.Text("type");
  ASSIGN_OR_RETURN(NormalizerPtr made, NormalizerOfType(type, fields, path));
  RETURN_IF_ERROR(fields.Done());
  return made;
}

}  // namespace composer

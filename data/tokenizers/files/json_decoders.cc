// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/tokenizers/files/json_parts.h"

namespace composer {
namespace {

using Json = JsonFields::Json;

absl::Status ReadDecoderSequence(JsonFields& fields, const std::string& path, TokenizerParts& parts) {
  const Json* list = fields.Child("decoders");
  if (list == nullptr || !list->is_array()) {
    fields.Reject("decoders", "must be a list");
    return absl::OkStatus();
  }
  size_t i = 0;
  for (const Json& item : *list) RETURN_IF_ERROR(ReadDecoder(item, absl::StrCat(path, ".decoders[", i++, "]"), parts));
  return absl::OkStatus();
}

void AddMetaspace(JsonFields& fields, TokenizerParts& parts) {
  const std::string mark = fields.Text("replacement", "\xe2\x96\x81");
  const std::string scheme = fields.Text("prepend_scheme", fields.Bool("add_prefix_space", true) ? "always" : "never");
  fields.Ignore({"split", "str_rep"});
  if (mark.empty()) fields.Reject("replacement", "must not be empty");
  parts.decode_steps.push_back(DecodeMetaspace(mark, scheme != "never"));
}

}  // namespace

absl::Status ReadDecoder(const Json& json, const std::string& path, TokenizerParts& parts) {
  RETURN_IF_ERROR(CheckDepth(path));
  JsonFields fields(json, path);
  const std::string type = fields.Text("type");
  if (type == "Sequence") {
    RETURN_IF_ERROR(ReadDecoderSequence(fields, path, parts));
  } else if (type == "ByteLevel") {  // tokens are bytes already
    fields.Ignore({"add_prefix_space", "trim_offsets", "use_regex"});
    if (!parts.of_bytes) fields.Reject("type", "`ByteLevel` without a pre-tokenizer ByteLevel is not supported");
    parts.decode_steps.push_back(DecodeFuse());
  } else if (type == "WordPiece") {
    const std::string prefix = fields.Text("prefix", "##");
    parts.decode_steps.push_back(DecodeWordPiece(prefix, fields.Bool("cleanup", true)));
  } else if (type == "Metaspace") {
    AddMetaspace(fields, parts);
  } else if (type == "ByteFallback") {
    parts.decode_steps.push_back(DecodeByteFallback());
  } else if (type == "Fuse") {
    parts.decode_steps.push_back(DecodeFuse());
  } else if (type == "Strip") {
    const std::string content = fields.Text("content", " ");
    const uint64_t start = fields.Number("start", 0);
    if (content.empty()) fields.Reject("content", "must be a character");
    parts.decode_steps.push_back(DecodeStrip(content, start, fields.Number("stop", 0)));
  } else if (type == "Replace") {
    ASSIGN_OR_RETURN(FoundSpans find, ReadPattern(fields));
    parts.decode_steps.push_back(DecodeReplace(std::move(find), fields.Text("content")));
  } else if (type == "BPEDecoder") {
    const std::string suffix = fields.Text("suffix", "</w>");
    if (suffix.empty()) fields.Reject("suffix", "must not be empty");
    parts.decode_steps.push_back(DecodeWordEnd(suffix));
  } else {
    fields.Reject("type", absl::StrCat("`", type.substr(0, 50),
                                       "` is not supported; ByteLevel, WordPiece, Metaspace, ByteFallback, Fuse, "
                                       "Strip, Replace, BPEDecoder and Sequence are"));
  }
  return fields.Done();
}

}  // namespace composer

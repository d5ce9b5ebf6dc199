// SPDX-License-Identifier: Apache-2.0
#include "storage/cloud_answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"

namespace composer {
namespace {

using Json = nlohmann::json;

std::string JsonText(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
}

// "CODE: message", or "".
std::string ErrorOf(absl::string_view text, const char* code_name) {
  const Json json = ParseJson(text);
  const std::string code = JsonText(json, code_name), message = JsonText(json, "message");
  return absl::CHexEscape(absl::StrCat(code, message.empty() ? "" : ": ", message.substr(0, 300)));
}

absl::Status NoAnswer(absl::string_view what, absl::string_view text) {
  return absl::InternalError(absl::StrCat("the answer is not ", what, ": ", absl::CHexEscape(text.substr(0, 200))));
}

}  // namespace

absl::StatusOr<AzurePage> ParseAzureList(absl::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size(), pugi::parse_default);
  const pugi::xml_node root = document.child("EnumerationResults");
  if (!parsed || !root)
    return absl::InternalError(
        absl::StrCat("the answer is not a list of blobs: ", absl::CHexEscape(xml.substr(0, 200))));
  AzurePage page;
  for (const pugi::xml_node& blob : root.child("Blobs").children("Blob")) {
    const char* name = blob.child_value("Name");
    if (*name == '\0') return absl::InternalError("a listed blob has no Name");
    page.names.emplace_back(name);
  }
  page.next = root.child_value("NextMarker");
  return page;
}

absl::StatusOr<VolumePage> ParseVolumeList(absl::string_view text) {
  const Json json = ParseJson(text);
  if (!json.is_object())
    return absl::InternalError(
        absl::StrCat("the answer is not a list of a folder: ", absl::CHexEscape(text.substr(0, 200))));
  VolumePage page;
  page.next = JsonText(json, "next_page_token");
  if (!json.contains("contents")) return page;  // an empty folder
  if (!json["contents"].is_array()) return absl::InternalError("the contents of a folder are not a list");
  for (const Json& entry : json["contents"]) {
    const std::string path = JsonText(entry, "path");
    if (path.empty()) return absl::InternalError("a listed file has no path");
    const bool folder = entry.contains("is_directory") && entry["is_directory"] == true;
    (folder ? page.folders : page.files).push_back(path);
  }
  return page;
}

std::string VolumeError(absl::string_view text) { return ErrorOf(text, "error_code"); }

absl::StatusOr<OciPage> ParseOciList(absl::string_view text) {
  const Json json = ParseJson(text);
  if (!json.is_object() || !json.contains("objects") || !json["objects"].is_array()) return NoAnswer("a list", text);
  OciPage page;
  page.next = JsonText(json, "nextStartWith");
  for (const Json& entry : json["objects"]) {
    page.names.push_back(JsonText(entry, "name"));
    if (page.names.back().empty()) return absl::InternalError("a listed object has no name");
  }
  return page;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseOciUploads(absl::string_view text) {
  const Json json = ParseJson(text);
  if (!json.is_array()) return NoAnswer("a list of uploads", text);
  std::vector<std::pair<std::string, std::string>> uploads;
  for (const Json& entry : json) {
    uploads.emplace_back(JsonText(entry, "object"), JsonText(entry, "uploadId"));
    if (uploads.back().first.empty() || uploads.back().second.empty())
      return absl::InternalError("a listed upload lacks its object or uploadId");
  }
  return uploads;
}

absl::StatusOr<std::string> ParseOciUploadId(absl::string_view text) {
  const std::string id = JsonText(ParseJson(text), "uploadId");
  if (id.empty()) return NoAnswer("an upload", text);
  return id;
}

absl::StatusOr<std::string> ParseOciNamespace(absl::string_view text) {
  const Json json = ParseJson(text);
  const std::string name = json.is_string() ? json.get<std::string>() : "";
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
  if (!plain) return NoAnswer("a namespace", text);
  return name;
}

std::string OciError(absl::string_view text) { return ErrorOf(text, "code"); }

}  // namespace composer

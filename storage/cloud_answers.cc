// SPDX-License-Identifier: Apache-2.0
#include "storage/cloud_answers.h"

#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using Json = nlohmann::json;

std::string JsonText(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
}

}  // namespace

absl::StatusOr<AzurePage> ParseAzureList(absl::string_view xml) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size(), pugi::parse_default);
  const pugi::xml_node root = document.child("EnumerationResults");
  if (!parsed || !root)
    return absl::InternalError(absl::StrCat("the answer is no list of blobs: ", absl::CHexEscape(xml.substr(0, 200))));
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
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return absl::InternalError(
        absl::StrCat("the answer is no list of a folder: ", absl::CHexEscape(text.substr(0, 200))));
  VolumePage page;
  page.next = JsonText(json, "next_page_token");
  if (!json.contains("contents")) return page;  // an empty folder
  if (!json["contents"].is_array()) return absl::InternalError("the contents of a folder are no list");
  for (const Json& entry : json["contents"]) {
    const std::string path = JsonText(entry, "path");
    if (path.empty()) return absl::InternalError("a listed file has no path");
    const bool folder = entry.contains("is_directory") && entry["is_directory"] == true;
    (folder ? page.folders : page.files).push_back(path);
  }
  return page;
}

std::string VolumeError(absl::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string code = JsonText(json, "error_code"), message = JsonText(json, "message");
  return absl::CHexEscape(absl::StrCat(code, message.empty() ? "" : ": ", message.substr(0, 300)));
}

}  // namespace composer

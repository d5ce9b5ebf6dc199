// Parses what Azure, Databricks and Oracle answer to a request for a list. Pure; the text is hostile. Fuzzed:
// tests/fuzz/store_answers_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct AzurePage {
  std::vector<std::string> names;
  std::string next;  // marker; "": this was the last page
};
absl::StatusOr<AzurePage> ParseAzureList(absl::string_view xml);

struct VolumePage {
  std::vector<std::string> files, folders;  // paths: "/Volumes/…"
  std::string next;                         // token; "": this was the last page
};
absl::StatusOr<VolumePage> ParseVolumeList(absl::string_view text);

// What Databricks says of an error: "CODE: message", or "".
std::string VolumeError(absl::string_view text);

struct OciPage {
  std::vector<std::string> names;
  std::string next;  // where the next page starts; "": this was the last page
};
absl::StatusOr<OciPage> ParseOciList(absl::string_view text);
// The uploads in parts that nobody ended: object and id.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseOciUploads(absl::string_view text);
absl::StatusOr<std::string> ParseOciUploadId(absl::string_view text);
// A JSON text of letters, digits, '-' and '_', since it becomes a part of paths.
absl::StatusOr<std::string> ParseOciNamespace(absl::string_view text);
// What Oracle says of an error: "Code: message", or "".
std::string OciError(absl::string_view text);

}  // namespace composer

// Parses what Azure and Databricks answer to a request for a list. Pure; the text is hostile. Fuzzed:
// tests/fuzz/store_answers_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
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

}  // namespace composer

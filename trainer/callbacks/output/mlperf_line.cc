// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/mlperf_line.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {
namespace {

const char* EventType(MlperfEvent event) {
  switch (event) {
    case MlperfEvent::kPointInTime:
      return "POINT_IN_TIME";
    case MlperfEvent::kIntervalStart:
      return "INTERVAL_START";
    case MlperfEvent::kIntervalEnd:
      return "INTERVAL_END";
  }
  return "";
}

}  // namespace

std::string MlperfLine(absl::Time now, MlperfEvent event, absl::string_view key, const nlohmann::ordered_json& value,
                       const nlohmann::ordered_json& metadata, const std::source_location& where) {
  nlohmann::ordered_json line;
  line["namespace"] = "";
  line["time_ms"] = absl::ToUnixMillis(now);
  line["event_type"] = EventType(event);
  line["key"] = std::string(key);
  line["value"] = value;
  line["metadata"] = {{"file", BaseName(where.file_name())}, {"lineno", where.line()}};
  line["metadata"].update(metadata);
  return absl::StrCat(":::MLLOG ", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
}

}  // namespace composer

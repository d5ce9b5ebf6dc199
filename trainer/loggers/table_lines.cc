// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/table_lines.h"

#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "base/format/json.h"
#include "base/status_macros.h"

namespace composer {

absl::Status TableLines::Start(const RunStart& start) {
  file_.reset();  // the path may name another file after this
  return RewindRecords(path_, start, origin_.launch);
}

absl::Status TableLines::WriteTable(const TableRecord& record) {
  if (!file_.has_value()) {
    ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path_));
    file_.emplace(std::move(file));
  }
  nlohmann::ordered_json json;
  json["time/epoch"] = record.timestamp.epoch;
  json["time/batch"] = record.timestamp.batch;
  json["time/sample"] = record.timestamp.sample;
  json["wall"] = static_cast<double>(absl::ToUnixMillis(absl::Now())) / 1e3;
  if (origin_.launch > 0) json["launch"] = origin_.launch;
  json["generation"] = origin_.generation;
  json["table"] = std::string(record.name);
  json.update(ParseOrderedJson(TableJson(record)));
  return file_->Append(json.dump() + "\n");
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/file_logger.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "trainer/loggers/value_text.h"

namespace composer {

absl::Status FileLogger::Append(absl::string_view lines) {
  if (!file_.has_value()) {
    RETURN_IF_ERROR(MakeDirs(DirName(options_.path)));
    ASSIGN_OR_RETURN(LineFile file, LineFile::Open(options_.path));
    file_.emplace(std::move(file));
  }
  return file_->Append(lines);
}

absl::Status FileLogger::Write(const MetricRecord& record) {
  const int64_t batch = record.timestamp.batch;
  text_.clear();
  for (const MetricValue& metric : record.metrics) {
    if (!absl::StartsWith(metric.name, kTracePrefix)) {
      absl::StrAppend(&text_, "[metric][batch=", batch, "]: ", metric.name, ": ", ValueText(metric.value), "\n");
    } else if (options_.log_traces) {
      absl::StrAppend(&text_, "[trace]: ", metric.name, ":", metric.value, "\n");
    }
  }
  if (text_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Append(text_));
  if (batch / options_.flush_interval == synced_ / options_.flush_interval) return absl::OkStatus();
  synced_ = batch;
  return file_->Sync();
}

absl::Status FileLogger::WriteHyperparameters(const Hyperparameters& hyperparameters) {
  text_.clear();
  for (const auto& [name, value] : hyperparameters)
    absl::StrAppend(&text_, "[hyperparameter]: ", name, ": ", SettingText(value), "\n");
  return text_.empty() ? absl::OkStatus() : Append(text_);
}

absl::Status FileLogger::WriteTable(const TableRecord& record) {
  return Append(absl::StrCat("[table]: ", record.name, ": ", TableJson(record), "\n"));
}

absl::Status FileLogger::Close() { return file_.has_value() ? file_->Sync() : absl::OkStatus(); }

}  // namespace composer

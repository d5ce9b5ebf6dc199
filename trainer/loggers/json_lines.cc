// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/json_lines.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// As JSON asks: names may hold a user's labels.
void AppendKey(absl::string_view key, std::string& line) {
  constexpr char kHex[] = "0123456789abcdef";
  line.push_back('"');
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ') {
      line.append("\\u00").append({kHex[byte >> 4], kHex[byte & 15]});
      continue;
    }
    if (c == '"' || c == '\\') line.push_back('\\');
    line.push_back(c);
  }
  line.append("\":");
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonLines>> JsonLines::Open(const std::string& path) {
  ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path));
  return std::unique_ptr<JsonLines>(new JsonLines(std::move(file)));
}

absl::Status JsonLines::Write(const MetricRecord& record) {
  const Timestamp& now = record.timestamp;
  line_.assign("{");
  Append("time/epoch", now.epoch);
  Append("time/batch", now.batch);
  Append("time/batch_in_epoch", now.batch_in_epoch);
  Append("time/sample", now.sample);
  Append("time/sample_in_epoch", now.sample_in_epoch);
  if (now.token > 0) {
    Append("time/token", now.token);
    Append("time/token_in_epoch", now.token_in_epoch);
  }
  Append("wall", static_cast<double>(absl::ToUnixMillis(absl::Now())) / 1e3);
  for (const MetricValue& metric : record.metrics) Append(metric.name, metric.value);
  line_.back() = '}';
  line_.push_back('\n');
  return file_.Append(line_);
}

void JsonLines::Append(absl::string_view key, double value) {
  AppendKey(key, line_);
  char text[32];
  if (std::isfinite(value)) {
    line_.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
  } else {
    line_.append("null");
  }
  line_.push_back(',');
}

void JsonLines::Append(absl::string_view key, int64_t value) {
  AppendKey(key, line_);
  char text[24];
  line_.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
  line_.push_back(',');
}

}  // namespace composer

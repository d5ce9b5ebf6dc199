// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/json_lines.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Quotes a name as JSON requires, since names may contain a user's labels.
std::string Quoted(absl::string_view key) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ') {
      text.append("\\u00").append({kHex[byte >> 4], kHex[byte & 15]});
      continue;
    }
    if (c == '"' || c == '\\') text.push_back('\\');
    text.push_back(c);
  }
  return text.append("\":");
}

std::string OriginText(const RecordOrigin& origin) {
  return absl::StrCat(origin.launch > 0 ? absl::StrCat("\"launch\":", origin.launch, ",") : "",
                      "\"generation\":", origin.generation, ",");
}

}  // namespace

JsonLines::JsonLines(std::string path, LineFile file, const RecordOrigin& origin)
    : path_(std::move(path)), launch_(origin.launch), origin_(OriginText(origin)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<JsonLines>> JsonLines::Open(const std::string& path, const RecordOrigin& origin) {
  ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path));
  return std::unique_ptr<JsonLines>(new JsonLines(path, std::move(file), origin));
}

absl::Status JsonLines::Start(const RunStart& start) {
  const absl::Status rewound = RewindRecords(path_, start, launch_);
  ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path_));  // the path may name another file now
  file_.emplace(std::move(file));
  return rewound;
}

absl::Status JsonLines::Write(const MetricRecord& record) {
  const Timestamp& now = record.timestamp;
  line_.assign("{");
  Append("\"time/epoch\":", now.epoch);
  Append("\"time/batch\":", now.batch);
  Append("\"time/batch_in_epoch\":", now.batch_in_epoch);
  Append("\"time/sample\":", now.sample);
  Append("\"time/sample_in_epoch\":", now.sample_in_epoch);
  if (now.token > 0) {
    Append("\"time/token\":", now.token);
    Append("\"time/token_in_epoch\":", now.token_in_epoch);
  }
  const int64_t millis = absl::ToUnixMillis(absl::Now());
  Append("\"wall\":", millis / 1000);
  const int64_t rest = 1000 + millis % 1000;  // three digits after a 1, which is replaced by the decimal point
  const size_t point = line_.size() - 1;
  line_.pop_back();
  absl::StrAppend(&line_, rest);
  line_[point] = '.';
  line_.push_back(',');
  line_.append(origin_);
  for (size_t i = 0; i < record.metrics.size(); ++i) {
    Append(QuotedKey(i, record.metrics[i].name), record.metrics[i].value);
  }
  line_.back() = '}';
  line_.push_back('\n');
  return file_->Append(line_);
}

absl::string_view JsonLines::QuotedKey(size_t place, absl::string_view name) {
  if (place == keys_.size()) keys_.emplace_back();
  auto& [known, quoted] = keys_[place];
  if (known != name || quoted.empty()) {
    known.assign(name.data(), name.size());
    quoted = Quoted(name);
  }
  return quoted;
}

void JsonLines::Append(absl::string_view quoted_key, double value) {
  line_.append(quoted_key.data(), quoted_key.size());
  char text[32];
  if (std::isfinite(value)) {
    line_.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
  } else {
    line_.append("null");
  }
  line_.push_back(',');
}

void JsonLines::Append(absl::string_view quoted_key, int64_t value) {
  line_.append(quoted_key.data(), quoted_key.size());
  char text[24];
  line_.append(text, std::to_chars(text, text + sizeof(text), value).ptr);
  line_.push_back(',');
}

}  // namespace composer

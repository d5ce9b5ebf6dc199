// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/dashboard_viewer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "launcher/control/trace_files.h"
#include "rendezvous/transport/token_check.h"

namespace composer {
namespace {

constexpr int64_t kLastLines = 200;
constexpr absl::Duration kTracesInterval = absl::Seconds(5);
constexpr size_t kMostOfALog = 256 << 10;  // bytes of one event; what is older is left out

std::string LogEvent(int rank, int generation, bool begins, absl::string_view text, absl::string_view error = "") {
  nlohmann::ordered_json json = {{"rank", rank}, {"generation", generation}, {"begins", begins}};
  json["text"] = std::string(text.substr(text.size() - std::min(text.size(), kMostOfALog)));
  if (!error.empty()) json["error"] = std::string(error);
  return ServerSentEvent("log", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::string ServerSentEvent(absl::string_view name, absl::string_view json) {
  return absl::StrCat("event: ", name, "\ndata: ", absl::StrReplaceAll(json, {{"\n", " "}, {"\r", " "}}), "\n\n");
}

bool DashboardViewer::Source::Opens(absl::string_view given) const {
  return !key.empty() && EqualInConstantTime(given, key);
}

absl::StatusOr<std::unique_ptr<DashboardViewer>> DashboardViewer::Open(const Source& source, absl::string_view query) {
  LineCursor cursor;
  int rank = -1;
  absl::string_view key;
  for (const absl::string_view part : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (field.first == "key") key = field.second;
    const bool read = field.first == "from"    ? absl::SimpleAtoi(field.second, &cursor.offset) && cursor.offset >= 0
                      : field.first == "check" ? absl::SimpleHexAtoi(field.second, &cursor.check)
                      : field.first == "rank"  ? absl::SimpleAtoi(field.second, &rank) && rank >= 0
                                               : field.first == "key";
    if (!read) {
      return absl::InvalidArgumentError(
          "the query must be from=BYTES&check=HEX, as an earlier event gave it, and rank=NUMBER&key=KEY");
    }
  }
  if (rank >= 0 && !source.Opens(key)) {
    return absl::PermissionDeniedError("logs are for those who have the key that the launcher printed");
  }
  return std::unique_ptr<DashboardViewer>(new DashboardViewer(source.run_folder, cursor, rank));
}

DashboardViewer::DashboardViewer(std::string run_folder, LineCursor cursor, int rank)
    : run_folder_(std::move(run_folder)),
      records_(JoinPath(run_folder_, "metrics.jsonl"), cursor),
      rank_(rank),
      log_(run_folder_, rank) {}

std::string DashboardViewer::News() {
  more_ = false;
  if (run_folder_.empty()) return "";
  std::string news = Records();
  if (rank_ >= 0) absl::StrAppend(&news, Log(), Traces());
  return news;
}

std::string DashboardViewer::Records() {
  const int64_t before = records_.cursor().offset;
  std::string records;
  const auto progress = records_.Read(/*max_bytes=*/1, [&](absl::string_view line) {
    if (!nlohmann::json::accept(line) || line[line.find_first_not_of(" \t")] != '{') return;
    absl::StrAppend(&records, records.empty() ? "" : ",", line);
  });
  if (!progress.ok()) return "";  // there are none yet
  more_ = progress->more || progress->rewound;
  const LineCursor& next = records_.cursor();
  if (!progress->rewound && next.offset == before) return "";
  return ServerSentEvent("records", absl::StrCat("{\"from\": \"from=", next.offset, "&check=", absl::Hex(next.check),
                                                 "\", \"rewound\": ", progress->rewound ? "true" : "false",
                                                 ", \"records\": [", records, "]}"));
}

std::string DashboardViewer::Traces() {
  if (absl::Now() < next_traces_) return "";
  next_traces_ = absl::Now() + kTracesInterval;
  std::string traces = TracesJson(run_folder_);
  if (traces.empty() || traces == traces_) return "";
  traces_ = std::move(traces);
  return ServerSentEvent("traces", traces_);
}

std::optional<int> DashboardViewer::NewerGeneration() const {
  const auto generations = LogGenerations(run_folder_, rank_);
  if (!generations.ok() || generations->back() <= log_.generation()) return std::nullopt;
  return generations->back();
}

std::string DashboardViewer::Log() {
  absl::StatusOr<std::string> text = log_.generation() > 0 ? log_.Read() : "";
  if (text.ok() && !text->empty()) return LogEvent(rank_, log_.generation(), false, *text);
  const std::optional<int> newer = NewerGeneration();
  if (newer.has_value() && log_.Open(*newer, kLastLines).ok()) {
    text = log_.Read();
    return LogEvent(rank_, *newer, true, text.value_or(""));
  }
  if (log_.generation() > 0 || told_no_log_) return "";
  told_no_log_ = true;
  const auto generations = LogGenerations(run_folder_, rank_);
  return LogEvent(rank_, 0, true, "", generations.status().message());
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "tracking/slack_sink.h"

#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/format/json.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Json = nlohmann::json;

// The newest start of the run that was posted, and the newest whose end was.
constexpr char kBegun[] = "begun", kEnded[] = "ended", kToldBatch[] = "told_batch", kToldEpoch[] = "told_epoch";

std::vector<std::string> WordsOf(const std::map<std::string, std::string>& settings, const std::string& key) {
  return absl::StrSplit(SettingOr(settings, key, ""), ',', absl::SkipEmpty());
}

int64_t NumberOf(const std::map<std::string, std::string>& texts, const std::string& key, int64_t fallback) {
  const auto found = texts.find(key);
  int64_t number = 0;
  return found != texts.end() && absl::SimpleAtoi(found->second, &number) && number >= 0 ? number : fallback;
}

// Slack's own escapes; other markup in a name does no harm.
std::string SlackText(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Composer's keys are regular expressions, which match from the beginning of a name: "loss.*", "metrics/(eval|test)/".
bool IsExpression(const std::string& key) {
  return key.find_first_of("^$()|\\+") != std::string::npos || absl::StrContains(key, ".*");
}

// Returns whether the key, a name, a pattern or an expression, is that of the metric.
bool Includes(const std::string& key, const std::string& metric) {
  if (key == metric) return true;
  if (!IsExpression(key)) return fnmatch(key.c_str(), metric.c_str(), 0) == 0;
  return std::regex_search(metric, std::regex(key), std::regex_constants::match_continuous);
}

absl::Status CheckExpression(const std::string& key) {
  try {
    if (IsExpression(key)) std::regex{key};
  } catch (const std::regex_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("slack: include_keys: `", key, "` is not a regular expression: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SlackSink::Options> SlackSink::ReadOptions(const std::map<std::string, std::string>& settings,
                                                          const Environment& environment) {
  Options options;
  const std::string hook = environment.GetOr("SLACK_WEBHOOK_URL", "");
  options.api_key = environment.GetOr("SLACK_LOGGING_API_KEY", "");
  options.channel = environment.GetOr("SLACK_LOGGING_CHANNEL_ID", "");
  if (!hook.empty()) {
    const size_t host = hook.find("://");
    const size_t slash = host == std::string::npos ? host : hook.find('/', host + 3);
    if (slash == std::string::npos || (!absl::StartsWith(hook, "https://") && !absl::StartsWith(hook, "http://")))
      return absl::InvalidArgumentError("slack: SLACK_WEBHOOK_URL must be https://HOST/PATH");
    options.origin = hook.substr(0, slash), options.path = hook.substr(slash);
    options.api_key.clear();
  } else if (options.api_key.empty() || options.channel.empty()) {
    return absl::InvalidArgumentError(
        "slack needs the variable SLACK_WEBHOOK_URL, or SLACK_LOGGING_API_KEY and SLACK_LOGGING_CHANNEL_ID");
  } else {
    options.origin = "https://slack.com", options.path = "/api/chat.postMessage";
  }
  options.keys = WordsOf(settings, "include_keys");
  for (const std::string& key : options.keys) RETURN_IF_ERROR(CheckExpression(key));
  options.events = WordsOf(settings, "events");
  options.every_batches = NumberOf(settings, "every_batches", 0);
  options.every_epochs = NumberOf(settings, "every_epochs", 0);
  options.max_logs_per_message = std::max<int64_t>(1, NumberOf(settings, "max_logs_per_message", 50));
  return options;
}

bool SlackSink::Tells(absl::string_view event) const {
  return std::find(options_.events.begin(), options_.events.end(), event) != options_.events.end();
}

absl::Status SlackSink::Post(const std::string& text) {
  Json message = {{"text", text}};
  if (!options_.channel.empty() && !options_.api_key.empty()) message["channel"] = options_.channel;
  const std::string body = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  const absl::string_view parts[] = {body};
  HttpRequest request;
  request.method = "POST";
  request.origin = options_.origin;
  request.path = options_.path;
  request.headers = {{"content-type", "application/json; charset=utf-8"}};
  if (!options_.api_key.empty()) request.headers.emplace_back("authorization", "Bearer " + options_.api_key);
  request.body = parts;
  request.timeout = absl::Seconds(30);
  request.given_up = options_.given_up.get();
  // The hook's path is a secret: messages name neither it nor the answer's address.
  const auto response = http_->Send(request);
  if (!response.ok()) return absl::UnavailableError(absl::StrCat("Slack at ", options_.origin, " does not answer"));
  const Json answer = ParseJson(response->body);
  const bool refused = answer.is_object() && answer.contains("ok") && answer["ok"] == false;
  if (response->status == 200 && !refused) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("Slack at ", options_.origin, ": HTTP ", response->status, ": ",
                                             Printable(response->body.substr(0, 200))));
}

absl::Status SlackSink::Begin(const TrackedRun& run, TrackerMemory& memory) {
  run_ = SlackText(run.name), start_ = run.start;
  const auto begun = memory.notes.find(kBegun);
  const bool again = begun != memory.notes.end();
  if (again && begun->second == start_) return absl::OkStatus();
  if (Tells(again ? "restart" : "start"))
    RETURN_IF_ERROR(Post(absl::StrCat("*", run_, "* ", again ? "continues after a restart" : "has started")));
  memory.notes[kBegun] = start_;
  return absl::OkStatus();
}

bool SlackSink::IsDue(const TrackedRecord& record, const TrackerMemory& memory) const {
  if (options_.every_epochs > 0) {
    return record.row.epoch / options_.every_epochs > NumberOf(memory.notes, kToldEpoch, 0) / options_.every_epochs;
  }
  return options_.every_batches > 0 &&
         record.row.batch / options_.every_batches > NumberOf(memory.notes, kToldBatch, 0) / options_.every_batches;
}

absl::Status SlackSink::Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) {
  std::string text;
  int64_t logs = 0;
  TrackerMemory told = memory;
  const auto post = [&]() -> absl::Status {
    if (logs > 0) RETURN_IF_ERROR(Post(absl::StrCat("*", run_, "*", text)));
    text.clear(), logs = 0;
    memory.notes = told.notes;  // a later failure does not repeat what was posted
    return absl::OkStatus();
  };
  for (const TrackedRecord& record : records) {
    if (!IsDue(record, told)) continue;
    std::string line;
    for (const auto& [name, value] : record.values) {
      const bool chosen = std::any_of(options_.keys.begin(), options_.keys.end(),
                                      [&, &key = name](const auto& pattern) { return Includes(pattern, key); });
      if (!chosen) continue;
      absl::StrAppendFormat(&line, "  %s: %.6g", SlackText(name), value);
      ++logs;
    }
    if (line.empty()) continue;  // a record of other metrics at this step
    absl::StrAppend(&text, "\nbatch ", record.row.batch, line);
    told.notes[kToldBatch] = absl::StrCat(record.row.batch);
    told.notes[kToldEpoch] = absl::StrCat(record.row.epoch);
    if (logs >= options_.max_logs_per_message) RETURN_IF_ERROR(post());
  }
  return post();
}

absl::Status SlackSink::Finish(absl::string_view state, TrackerMemory& memory) {
  const auto ended = memory.notes.find(kEnded);
  if (ended != memory.notes.end() && ended->second == start_) return absl::OkStatus();
  if (Tells("end")) RETURN_IF_ERROR(Post(absl::StrCat("*", run_, "* has ended: ", SlackText(state))));
  memory.notes[kEnded] = start_;
  return absl::OkStatus();
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracker.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using StateJson = nlohmann::ordered_json;

constexpr int64_t kChunk = 256 << 10;  // bytes of metrics.jsonl at a time
constexpr int64_t kMaxState = 16 << 20;
constexpr size_t kMaxParameters = 10'000;

// Returns nullopt when the line does not name a file within the run folder.
std::optional<TrackedFile> ParseFileLine(absl::string_view line) {
  const StateJson json = ParseOrderedJson(line);
  TrackedFile file;
  std::string kind;
  if (!json.is_object() || !TakeMember(json, "kind", kind) || !TakeMember(json, "name", file.name) ||
      !TakeMember(json, "path", file.path) || file.path.empty() || absl::StartsWith(file.path, "/"))
    return std::nullopt;
  for (const absl::string_view part : absl::StrSplit(file.path, '/')) {
    if (part == "..") return std::nullopt;
  }
  file.kind = kind == "image"        ? TrackedFile::Kind::kImage
              : kind == "table"      ? TrackedFile::Kind::kTable
              : kind == "checkpoint" ? TrackedFile::Kind::kCheckpoint
                                     : TrackedFile::Kind::kFile;
  TakeMember(json, "time/batch", file.row.batch);
  TakeMember(json, "time/epoch", file.row.epoch);
  TakeMember(json, "wall", file.row.wall);
  return file;
}

std::map<std::string, std::string> TextsOf(const StateJson& json, const char* key) {
  std::map<std::string, std::string> texts;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) return texts;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string() && texts.size() < kMaxParameters) texts[name] = value.get<std::string>();
  }
  return texts;
}

absl::StatusOr<StateJson> ReadState(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxState));
  StateJson json = ParseOrderedJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path, " is damaged: it is not a JSON object"));
  return json;
}

}  // namespace

Tracker::Tracker(TrackerOptions options, std::unique_ptr<TrackerSink> sink)
    : options_(std::move(options)),
      sink_(std::move(sink)),
      follower_(JoinPath(options_.run.folder, "metrics.jsonl")),
      files_(JoinPath(options_.run.folder, "files.jsonl")),
      launch_(options_.launch) {
  memory_.settings = options_.settings;
}

std::string Tracker::path() const {
  return JoinPath(options_.run.folder, absl::StrCat("trackers/", options_.name, ".json"));
}

absl::Status Tracker::Load(bool resumed) {
  const absl::StatusOr<StateJson> state = ReadState(path());
  if (absl::IsNotFound(state.status())) return absl::OkStatus();
  RETURN_IF_ERROR(state.status());
  int64_t launch = 0;
  TakeMember(*state, "launch", launch);
  if (!resumed && launch != options_.launch) return absl::OkStatus();
  TakeMember(*state, "started", options_.run.started);
  memory_.notes = TextsOf(*state, "notes");
  const auto parameters = state->find("parameters");
  if (parameters != state->end() && parameters->is_array()) {
    for (const StateJson& pair : *parameters) {
      if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
        AddParameters({{pair[0].get<std::string>(), pair[1].get<std::string>()}});
    }
  }
  LineCursor cursor;
  TakeMember(*state, "offset", cursor.offset);
  TakeMember(*state, "check", cursor.check);
  TakeMember(*state, "last_batch", last_batch_);
  TakeMember(*state, "skip_to", skip_to_);
  follower_.set_cursor(cursor);
  LineCursor files;
  TakeMember(*state, "files_offset", files.offset);
  TakeMember(*state, "files_check", files.check);
  files_.set_cursor(files);
  must_start_over_ = sink_->AlwaysStartsOver();
  return absl::OkStatus();
}

void Tracker::AddParameters(const std::vector<std::pair<std::string, std::string>>& parameters) {
  for (const auto& parameter : parameters) {
    const bool known = std::any_of(memory_.parameters.begin(), memory_.parameters.end(),
                                   [&](const auto& p) { return p.first == parameter.first; });
    if (!known && memory_.parameters.size() < kMaxParameters) memory_.parameters.push_back(parameter);
  }
}

absl::Status Tracker::Prepare() {
  if (must_start_over_) {
    RETURN_IF_ERROR(sink_->StartOver(options_.run, memory_));
    follower_.set_cursor({});
    files_.set_cursor({});
    last_batch_ = skip_to_ = 0;
    must_start_over_ = false;
    RETURN_IF_ERROR(Save());
  }
  if (begun_) return absl::OkStatus();
  RETURN_IF_ERROR(Save());  // for `composer sync`, if the server never answers
  RETURN_IF_ERROR(sink_->Begin(options_.run, memory_));
  begun_ = true;
  return Save();
}

absl::Status Tracker::SendFiles() {
  const LineCursor before = files_.cursor();
  const bool all = SettingOr(options_.settings, "log_artifacts", "") == "true";
  for (bool more = true; more;) {
    std::vector<TrackedFile> files;
    const auto progress = files_.Read(kChunk, [&](absl::string_view line) {
      std::optional<TrackedFile> file = ParseFileLine(line);
      if (!file.has_value()) return;
      const bool media = file->kind == TrackedFile::Kind::kImage || file->kind == TrackedFile::Kind::kTable;
      if (media || all) files.push_back(*std::move(file));
    });
    if (absl::IsNotFound(progress.status())) return absl::OkStatus();  // the run has made none
    RETURN_IF_ERROR(progress.status());
    for (const TrackedFile& file : files) {
      if (const absl::Status sent = sink_->SendFile(options_.run, file, memory_); !sent.ok()) {
        files_.set_cursor(before);
        return sent;
      }
    }
    more = progress->more;
  }
  return files_.cursor().offset == before.offset ? absl::OkStatus() : Save();
}

absl::StatusOr<bool> Tracker::SendSome() {
  RETURN_IF_ERROR(Prepare());
  if (const absl::Status sent = SendFiles(); !sent.ok()) {
    must_start_over_ = must_start_over_ || sink_->AlwaysStartsOver();
    begun_ = begun_ && !must_start_over_;
    return sent;
  }
  std::vector<TrackedRecord> records;
  const LineCursor before = follower_.cursor();
  const auto progress = follower_.Read(kChunk, [&](absl::string_view line) {
    TrackedRecord record;
    if (ParseTrackedRecord(line, record) && record.row.batch > skip_to_) records.push_back(std::move(record));
  });
  if (absl::IsNotFound(progress.status())) return false;  // nothing was recorded yet
  RETURN_IF_ERROR(progress.status());
  if (progress->rewound) {
    if (options_.keeps_rewound_steps) {
      skip_to_ = last_batch_;
    } else {
      must_start_over_ = true;
      begun_ = false;
    }
    return true;
  }
  if (const absl::Status sent = records.empty() ? absl::OkStatus() : sink_->Send(records, memory_); !sent.ok()) {
    follower_.set_cursor(before);
    must_start_over_ = must_start_over_ || sink_->AlwaysStartsOver();
    begun_ = begun_ && !must_start_over_;
    return sent;
  }
  for (const TrackedRecord& record : records) last_batch_ = std::max(last_batch_, record.row.batch);
  if (follower_.cursor().offset != before.offset) RETURN_IF_ERROR(Save());
  return progress->more;
}

absl::Status Tracker::Finish(absl::string_view state) {
  RETURN_IF_ERROR(Prepare());
  RETURN_IF_ERROR(sink_->Finish(state, memory_));
  return Save();
}

absl::Status Tracker::Save() {
  StateJson json = {{"tracker", options_.name},
                    {"run_name", options_.run.name},
                    {"started", options_.run.started},
                    {"start", options_.run.start},
                    {"rewound_steps", options_.keeps_rewound_steps ? "keep" : "replace"},
                    {"launch", launch_},
                    {"offset", follower_.cursor().offset},
                    {"check", follower_.cursor().check},
                    {"files_offset", files_.cursor().offset},
                    {"files_check", files_.cursor().check},
                    {"last_batch", last_batch_},
                    {"skip_to", skip_to_},
                    {"settings", memory_.settings},
                    {"notes", memory_.notes},
                    {"parameters", memory_.parameters}};
  RETURN_IF_ERROR(MakeDirs(DirName(path())));
  return AtomicWriteFile(path(), json.dump(1, ' ', false, StateJson::error_handler_t::replace) + "\n",
                         {.mode = 0600, .sync = false});
}

absl::StatusOr<TrackerOptions> ReadTrackerOptions(const std::string& state_file) {
  ASSIGN_OR_RETURN(const StateJson json, ReadState(state_file));
  TrackerOptions options;
  std::string rewound;
  if (!TakeMember(json, "tracker", options.name) || options.name != Stem(state_file) ||
      !TakeMember(json, "run_name", options.run.name))
    return absl::InvalidArgumentError(absl::StrCat(state_file, " is damaged: it does not name its tracker and run"));
  TakeMember(json, "started", options.run.started);
  TakeMember(json, "start", options.run.start);
  TakeMember(json, "launch", options.launch);
  options.keeps_rewound_steps = TakeMember(json, "rewound_steps", rewound) && rewound == "keep";
  options.settings = TextsOf(json, "settings");
  options.run.folder = DirName(DirName(AbsolutePath(state_file)));
  return options;
}

}  // namespace composer

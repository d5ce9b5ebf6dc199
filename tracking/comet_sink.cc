// SPDX-License-Identifier: Apache-2.0
#include "tracking/comet_sink.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "tracking/zip_file.h"

namespace composer {
namespace {

using Json = nlohmann::json;

int64_t Millis(double seconds) { return static_cast<int64_t>(std::llround(seconds * 1000)); }

// JSON has no NaN; Comet takes Python's names.
Json CometNumber(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

// 32 characters, of the folder and the time of the run: each life of a run is an experiment of its own.
std::string KeyOf(const TrackedRun& run) {
  std::string key;
  for (uint32_t i = 0; i < 4; ++i) {
    const std::string text = absl::StrCat(i, " ", Millis(run.started), " ", run.folder);
    absl::StrAppendFormat(&key, "%08x",
                          crc32(i, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
  }
  return key;
}

std::string PathOf(const TrackedRun& run, const TrackerMemory& memory, absl::string_view ending) {
  return JoinPath(run.folder, absl::StrCat("comet/", memory.notes.at("key"), ending));
}

std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

absl::Status CometSink::Write(const char* type, Json payload) {
  payload["message_id"] = ++number_;
  return messages_->Append(Line({{"type", type}, {"payload", std::move(payload)}}));
}

absl::Status CometSink::WriteOther(const std::string& key, const std::string& value) {
  return Write("log_other", {{"key", key}, {"value", value}});
}

absl::Status CometSink::StartOver(const TrackedRun& run, TrackerMemory& memory) {
  messages_.reset();
  if (!memory.notes.contains("key")) return absl::OkStatus();
  RETURN_IF_ERROR(RemoveFile(PathOf(run, memory, ".jsonl")));
  return RemoveFile(PathOf(run, memory, ".zip"));
}

absl::Status CometSink::Begin(const TrackedRun& run, TrackerMemory& memory) {
  memory.notes.emplace("key", KeyOf(run));
  run_ = run, number_ = 0, parameters_written_ = 0, newest_ = Millis(run.started);
  files_.clear();
  RETURN_IF_ERROR(MakeDirs(JoinPath(run.folder, "comet")));
  RETURN_IF_ERROR(RemoveFile(PathOf(run, memory, ".jsonl")));
  ASSIGN_OR_RETURN(LineFile file, LineFile::Open(PathOf(run, memory, ".jsonl")));
  messages_.emplace(std::move(file));
  RETURN_IF_ERROR(Write("log_other", {{"key", "offline_experiment"}, {"value", true}}));
  RETURN_IF_ERROR(WriteOther("Name", SettingOr(memory.settings, "name", run.name)));
  RETURN_IF_ERROR(WriteOther("Created from", absl::StrCat("composer ", COMPOSER_VERSION)));
  return WriteParameters(memory);
}

absl::Status CometSink::WriteParameters(const TrackerMemory& memory) {
  for (; parameters_written_ < memory.parameters.size(); ++parameters_written_) {
    const auto& [name, value] = memory.parameters[parameters_written_];
    const Json param = {{"paramName", name}, {"paramValue", value}, {"step", nullptr}, {"source", "manual"}};
    RETURN_IF_ERROR(Write("parameter_msg", {{"local_timestamp", Millis(run_.started)}, {"param", param}}));
    if (name == "git_commit")
      RETURN_IF_ERROR(Write("git_metadata", {{"git_metadata", {{"parent", value}, {"user", nullptr}}}}));
  }
  return absl::OkStatus();
}

absl::Status CometSink::Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) {
  RETURN_IF_ERROR(WriteParameters(memory));
  for (const TrackedRecord& record : records) {
    newest_ = std::max(newest_, Millis(record.row.wall));
    for (const auto& [name, value] : record.values) {
      const Json metric = {{"metricName", name},
                           {"metricValue", CometNumber(value)},
                           {"step", record.row.batch},
                           {"epoch", record.row.epoch}};
      RETURN_IF_ERROR(Write("metric_msg", {{"local_timestamp", Millis(record.row.wall)}, {"metric", metric}}));
    }
  }
  return absl::OkStatus();
}

absl::Status CometSink::SendFile(const TrackedRun& run, const TrackedFile& file, TrackerMemory& memory) {
  const std::string path = JoinPath(run.folder, file.path);
  if (!PathExists(path) || IsDirectory(path)) {
    LOG(WARNING) << "not kept for Comet: there is no file " << path;
    return absl::OkStatus();
  }
  const std::string packed = absl::StrCat("file-", files_.size());
  files_.emplace_back(packed, path);
  const bool image = file.kind == TrackedFile::Kind::kImage;
  const bool model = file.kind == TrackedFile::Kind::kCheckpoint;
  Json facts = {{"context", nullptr}, {"step", file.row.batch}, {"overwrite", false}};
  facts[image ? "figName" : "fileName"] = image ? file.name : file.path;
  if (model) facts["groupingName"] = file.name;
  return Write("file_upload", {{"additional_params", facts},
                               {"clean", false},
                               {"file_path", packed},
                               {"local_timestamp", Millis(file.row.wall)},
                               {"metadata", Json::object()},
                               {"upload_type", image   ? "visualization"
                                               : model ? "model-element"
                                                       : "asset"}});
}

absl::Status CometSink::Finish(absl::string_view state, TrackerMemory& memory) {
  RETURN_IF_ERROR(WriteParameters(memory));
  RETURN_IF_ERROR(WriteOther("exit_reason", std::string(state)));
  std::vector<std::string> tags = absl::StrSplit(SettingOr(memory.settings, "tags", ""), ',', absl::SkipEmpty());
  const std::string workspace = SettingOr(memory.settings, "workspace", "");
  const bool failed = state != "done" && state != "preempted";
  const Json about = {{"offline_id", memory.notes.at("key")},
                      {"project_name", SettingOr(memory.settings, "project_name", "composer")},
                      {"workspace", workspace.empty() ? Json() : Json(workspace)},
                      {"start_time", Millis(run_.started)},
                      {"stop_time", newest_},
                      {"tags", tags},
                      {"resume_strategy", "create"},
                      {"customer_error_reported", failed},
                      {"customer_error_message", failed ? Json(std::string(state)) : Json()},
                      {"user_provided_experiment_key", true},
                      {"comet_start_sourced", false}};
  ASSIGN_OR_RETURN(ZipFile archive, ZipFile::Create(PathOf(run_, memory, ".zip")));
  RETURN_IF_ERROR(archive.AddText("experiment.json", Line(about)));
  RETURN_IF_ERROR(archive.AddFile("messages.json", messages_->path()));
  for (const auto& [name, path] : files_) {
    const absl::Status added = archive.AddFile(name, path);
    if (absl::IsNotFound(added)) RETURN_IF_ERROR(archive.AddText(name, ""));  // removed since: the message stands
    if (!absl::IsNotFound(added)) RETURN_IF_ERROR(added);
  }
  return archive.Finish();
}

}  // namespace composer

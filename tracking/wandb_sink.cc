// SPDX-License-Identifier: Apache-2.0
#include "tracking/wandb_sink.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/format/little_endian.h"
#include "base/format/proto_writer.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kBlock = 32 << 10, kChunkHead = 7;
constexpr size_t kMaxSummary = 10'000;
// Fields of wandb_internal.Record, and of the messages in it.
constexpr int kNumber = 1, kHistory = 2, kSummary = 3, kConfig = 5, kFiles = 6, kArtifact = 8, kRun = 17, kExit = 18,
              kHeader = 21;
constexpr int64_t kMaxFile = int64_t{1} << 30;

std::string JsonText(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string JsonNumber(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return nlohmann::json(value).dump();
}

// {nested_key 2, value_json 16}: of the items of history, summary and config.
ProtoWriter Item(absl::string_view name, absl::string_view json) {
  ProtoWriter item;
  item.Bytes(2, name).Bytes(16, json);
  return item;
}

std::string NoteOf(const TrackerMemory& memory, const std::string& key) {
  const auto found = memory.notes.find(key);
  return found == memory.notes.end() ? "" : found->second;
}

}  // namespace

std::string WandbLog::Begin() {
  std::string bytes = ":W&B";
  AppendNumber<uint16_t>(0xBEE1, bytes);
  bytes.push_back(0);
  in_block_ = bytes.size();
  return bytes;
}

std::string WandbLog::Append(absl::string_view record) {
  std::string bytes;
  for (bool first = true; first || !record.empty(); first = false) {
    size_t room = kBlock - in_block_;
    if (room < kChunkHead) {
      bytes.append(room, '\0');
      in_block_ = 0;
      room = kBlock;
    }
    const absl::string_view part = record.substr(0, room - kChunkHead);
    record.remove_prefix(part.size());
    const char type = static_cast<char>(first ? (record.empty() ? 1 : 2) : (record.empty() ? 4 : 3));
    std::string checked(1, type);
    absl::StrAppend(&checked, part);
    const auto* const data = reinterpret_cast<const Bytef*>(checked.data());
    AppendNumber(static_cast<uint32_t>(crc32(0, data, static_cast<uInt>(checked.size()))), bytes);
    AppendNumber(static_cast<uint16_t>(part.size()), bytes);
    bytes += checked;
    in_block_ += kChunkHead + part.size();
  }
  return bytes;
}

absl::Status WandbSink::WriteRecord(const std::string& record) {
  ProtoWriter number;
  number.Int(kNumber, ++number_);
  return file_->Append(log_.Append(absl::StrCat(number.bytes(), record)));
}

absl::Status WandbSink::StartOver(const TrackedRun& run, TrackerMemory& memory) {
  file_.reset();
  const std::string path = NoteOf(memory, "path");
  return path.empty() ? absl::OkStatus() : RemoveFile(JoinPath(run.folder, path));
}

absl::Status WandbSink::Begin(const TrackedRun& run, TrackerMemory& memory) {
  if (NoteOf(memory, "id").empty()) {
    const std::string id = absl::StrFormat(
        "%08x", crc32(0, reinterpret_cast<const Bytef*>(run.folder.data()), static_cast<uInt>(run.folder.size())) ^
                    static_cast<uint32_t>(run.started * 1000));
    const std::string time = absl::FormatTime("%Y%m%d_%H%M%S", absl::FromUnixSeconds(static_cast<int64_t>(run.started)),
                                              absl::LocalTimeZone());
    memory.notes["id"] = id;
    memory.notes["path"] = absl::StrCat("wandb/offline-run-", time, "-", id, "/run-", id, ".wandb");
  }
  const std::string path = JoinPath(run.folder, NoteOf(memory, "path"));
  RETURN_IF_ERROR(MakeDirs(JoinPath(DirName(path), "files")));
  RETURN_IF_ERROR(RemoveFile(path));
  ASSIGN_OR_RETURN(LineFile file, LineFile::Open(path));
  file_.emplace(std::move(file));
  number_ = 0, parameters_written_ = 0, started_ = run.started;
  row_.reset(), summary_.clear(), media_.clear(), checkpoint_files_.clear();
  RETURN_IF_ERROR(file_->Append(log_.Begin()));
  ProtoWriter version, header;
  version.Bytes(1, "0.31.0").Bytes(2, "0.31.0");
  header.Message(kHeader, ProtoWriter().Message(1, version));
  RETURN_IF_ERROR(WriteRecord(header.bytes()));
  const auto setting = [&](const char* key, const std::string& fallback = "") {
    return SettingOr(memory.settings, key, fallback);
  };
  id_ = NoteOf(memory, "id");
  project_ = setting("project", "composer");
  ProtoWriter about, start, record;
  about.Bytes(1, id_);
  if (!setting("entity").empty()) about.Bytes(2, setting("entity"));
  about.Bytes(3, project_);
  if (!setting("group").empty()) about.Bytes(6, setting("group"));
  about.Bytes(8, setting("name", run.name));
  for (const absl::string_view tag : absl::StrSplit(setting("tags"), ',', absl::SkipEmpty())) about.Bytes(10, tag);
  start.Int(1, static_cast<int64_t>(run.started));
  about.Message(17, start);
  for (const auto& [name, value] : memory.parameters) {
    if (name == "git_commit") about.Message(21, ProtoWriter().Bytes(2, value));
  }
  record.Message(kRun, about);
  RETURN_IF_ERROR(WriteRecord(record.bytes()));
  return WriteConfig(memory);
}

absl::Status WandbSink::WriteConfig(const TrackerMemory& memory) {
  if (parameters_written_ == memory.parameters.size()) return absl::OkStatus();
  ProtoWriter config, record;
  for (; parameters_written_ < memory.parameters.size(); ++parameters_written_) {
    const auto& [name, value] = memory.parameters[parameters_written_];
    config.Message(1, Item(name, JsonText(value)));
  }
  record.Message(kConfig, config);
  return WriteRecord(record.bytes());
}

absl::StatusOr<std::string> WandbSink::Keep(const std::string& content, const std::string& path) {
  const std::string place = JoinPath(DirName(file_->path()), absl::StrCat("files/", path));
  RETURN_IF_ERROR(MakeDirs(DirName(place)));
  RETURN_IF_ERROR(AtomicWriteFile(place, content, {.sync = false}));
  ProtoWriter record;
  record.Message(kFiles, ProtoWriter().Message(1, ProtoWriter().Bytes(1, path)));
  RETURN_IF_ERROR(WriteRecord(record.bytes()));
  return place;
}

absl::Status WandbSink::KeepCheckpointFile(const TrackedRun& run, const TrackedFile& file, const std::string& content) {
  if (file.name != checkpoint_) {
    RETURN_IF_ERROR(WriteArtifact());
    checkpoint_ = file.name;
  }
  const size_t inside = file.path.find(absl::StrCat("/", file.name, "/"));
  checkpoint_files_.push_back(
      {.path = inside == std::string::npos ? BaseName(file.path) : file.path.substr(inside + file.name.size() + 2),
       .local_path = JoinPath(run.folder, file.path),
       .md5 = Md5Of(content),
       .size = static_cast<int64_t>(content.size())});
  return absl::OkStatus();
}

absl::Status WandbSink::WriteArtifact() {
  if (checkpoint_files_.empty()) return absl::OkStatus();
  ProtoWriter record;
  record.Message(kArtifact, WandbArtifact(id_, project_, absl::StrCat("checkpoint-", id_), {"latest", checkpoint_},
                                          std::exchange(checkpoint_files_, {})));
  return WriteRecord(record.bytes());
}

absl::Status WandbSink::SendFile(const TrackedRun& run, const TrackedFile& file, TrackerMemory& memory) {
  const auto content = ReadFile(JoinPath(run.folder, file.path), kMaxFile);
  if (!content.ok()) {
    LOG(WARNING) << "not kept for W&B: " << content.status();
    return absl::OkStatus();
  }
  if (file.kind == TrackedFile::Kind::kCheckpoint) return KeepCheckpointFile(run, file, *content);
  if (file.kind == TrackedFile::Kind::kFile) return Keep(*content, file.path).status();
  RETURN_IF_ERROR(Keep(*content, WandbMediaPath(file, *content)).status());
  media_.push_back({file.row, file.name, WandbMediaJson(file, *content)});
  return absl::OkStatus();
}

absl::Status WandbSink::WriteRow() {
  if (!row_.has_value()) return absl::OkStatus();
  ProtoWriter history, record;
  for (const auto& [name, value] : row_->values) history.Message(1, Item(name, JsonNumber(value)));
  std::map<std::string, std::string> due;  // of one name the newest
  while (!media_.empty() && media_.front().row.batch <= row_->row.batch) {
    due[media_.front().name] = media_.front().json;
    media_.pop_front();
  }
  for (const auto& [name, json] : due) history.Message(1, Item(name, json));
  history.Message(1, Item("_step", absl::StrCat(row_->row.batch)));
  history.Message(1, Item("_timestamp", JsonNumber(row_->row.wall)));
  history.Message(1, Item("_runtime", JsonNumber(std::max(0.0, row_->row.wall - started_))));
  history.Message(2, ProtoWriter().Int(1, row_->row.batch));
  record.Message(kHistory, history);
  for (const auto& [name, value] : row_->values) {
    if (summary_.size() < kMaxSummary || summary_.contains(name)) summary_[name] = value;
  }
  summary_["_step"] = static_cast<double>(row_->row.batch);
  row_.reset();
  return WriteRecord(record.bytes());
}

absl::Status WandbSink::Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) {
  RETURN_IF_ERROR(WriteConfig(memory));
  for (const TrackedRecord& record : records) {
    if (row_.has_value() && row_->row.batch != record.row.batch) RETURN_IF_ERROR(WriteRow());
    if (!row_.has_value()) {
      row_ = record;
    } else {
      row_->values.insert(row_->values.end(), record.values.begin(), record.values.end());
    }
  }
  return absl::OkStatus();
}

absl::Status WandbSink::Finish(absl::string_view state, TrackerMemory& memory) {
  RETURN_IF_ERROR(WriteConfig(memory));
  RETURN_IF_ERROR(WriteRow());
  while (!media_.empty()) {  // beyond the last record
    row_ = TrackedRecord{.row = media_.front().row, .values = {}};
    RETURN_IF_ERROR(WriteRow());
  }
  RETURN_IF_ERROR(WriteArtifact());
  ProtoWriter summary, with_summary, exit, with_exit;
  for (const auto& [name, value] : summary_) summary.Message(1, Item(name, JsonNumber(value)));
  with_summary.Message(kSummary, summary);
  RETURN_IF_ERROR(WriteRecord(with_summary.bytes()));
  exit.Int(1, state == "done" || state == "preempted" ? 0 : 1);
  with_exit.Message(kExit, exit);
  RETURN_IF_ERROR(WriteRecord(with_exit.bytes()));
  return file_->Sync();
}

}  // namespace composer

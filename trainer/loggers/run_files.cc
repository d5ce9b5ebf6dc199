// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/run_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/format/png.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int64_t kMaxName = 4096;

// Returns a relative path of letters, digits and ._-/ without ".." as a part.
std::string SafeName(absl::string_view name) {
  std::string safe(name);
  for (char& c : safe) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-' && c != '/') c = '_';
  }
  return absl::StrReplaceAll(safe, {{"..", "__"}, {"//", "/_"}});
}

}  // namespace

absl::Status RunFiles::Start(const RunStart& start) {
  file_.reset();
  newest_ = start.timestamp;
  RETURN_IF_ERROR(RewindRecords(JoinPath(options_.run_folder, "files.jsonl"), start, options_.origin.launch));
  const std::string config = JoinPath(options_.run_folder, "config.yaml");
  const bool lists = options_.lists_files && !start.resumed && PathExists(config);
  return lists ? List(newest_, "file", "config.yaml", "config.yaml") : absl::OkStatus();
}

absl::Status RunFiles::Write(const MetricRecord& record) {
  newest_ = record.timestamp;
  return absl::OkStatus();
}

absl::Status RunFiles::List(const Timestamp& time, const char* kind, absl::string_view name, const std::string& path) {
  if (!file_.has_value()) {
    ASSIGN_OR_RETURN(LineFile file, LineFile::Open(JoinPath(options_.run_folder, "files.jsonl")));
    file_.emplace(std::move(file));
  }
  nlohmann::ordered_json json = {{"time/epoch", time.epoch}, {"time/batch", time.batch}, {"time/sample", time.sample}};
  json["wall"] = static_cast<double>(absl::ToUnixMillis(absl::Now())) / 1e3;
  if (options_.origin.launch > 0) json["launch"] = options_.origin.launch;
  json["generation"] = options_.origin.generation;
  json["kind"] = kind;
  json["name"] = std::string(name);
  json["path"] = path;
  return file_->Append(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

absl::Status RunFiles::Keep(const Timestamp& time, const char* kind, absl::string_view name, const std::string& path,
                            absl::string_view content) {
  const std::string whole = JoinPath(options_.run_folder, path);
  RETURN_IF_ERROR(MakeDirs(DirName(whole)));
  RETURN_IF_ERROR(AtomicWriteFile(whole, content, {.sync = false}));
  return List(time, kind, name, path);
}

absl::Status RunFiles::WriteImages(const ImageRecord& record) {
  for (size_t i = 0; i < record.images.size(); ++i) {
    const Image& image = record.images[i];
    const std::string name = record.images.size() == 1 ? std::string(record.name) : absl::StrCat(record.name, "/", i);
    ASSIGN_OR_RETURN(const std::string png, EncodePng({image.height, image.width, image.channels, image.pixels}));
    const std::string path = absl::StrCat("media/", SafeName(name), "-ba", record.timestamp.batch, ".png");
    RETURN_IF_ERROR(Keep(record.timestamp, "image", name, path, png));
  }
  return absl::OkStatus();
}

absl::Status RunFiles::WriteTable(const TableRecord& record) {
  const std::string path = absl::StrCat("media/", SafeName(record.name), "-ba", record.timestamp.batch, ".json");
  return Keep(record.timestamp, "table", record.name, path, TableJson(record));
}

std::string RunFiles::PathInRun(const std::string& path) const {
  const std::string folder = absl::StrCat(AbsolutePath(options_.run_folder), "/"), whole = AbsolutePath(path);
  absl::string_view inside = whole;
  return absl::ConsumePrefix(&inside, folder) ? std::string(inside) : "";
}

absl::Status RunFiles::TakeFile(absl::string_view name, const std::string& path) {
  const std::string inside = PathInRun(path);
  return options_.lists_files && !inside.empty() ? List(newest_, "file", name, inside) : absl::OkStatus();
}

absl::Status RunFiles::ListCheckpoint() {
  const std::string folder = PathInRun(options_.checkpoint_folder);
  if (options_.latest.empty() || folder.empty()) return absl::OkStatus();
  const auto latest = ReadFile(JoinPath(options_.checkpoint_folder, options_.latest), kMaxName);
  if (!latest.ok()) return absl::OkStatus();  // none was saved
  const std::string name(absl::StripAsciiWhitespace(*latest));
  const std::string root = JoinPath(options_.checkpoint_folder, name);
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path().lexically_relative(root).string());
  }
  if (error) return ErrnoStatus(error.value(), "cannot read folder", root);
  std::sort(files.begin(), files.end());
  for (const std::string& file : files)
    RETURN_IF_ERROR(List(newest_, "checkpoint", name, absl::StrCat(folder, "/", name, "/", file)));
  return absl::OkStatus();
}

absl::Status RunFiles::Close() { return options_.lists_files ? ListCheckpoint() : absl::OkStatus(); }

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "views/read/run_info.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "views/read/flat_json.h"
#include "views/read/metrics_reader.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxSummary = 8 << 20;
constexpr int64_t kFirstBlock = 16 << 10, kMaxBlock = 16 << 20;
constexpr size_t kMaxRuns = 100'000, kMaxMetrics = 10'000;
constexpr int kMaxDepth = 3;

// Adds the values of a line that `run` does not have yet. Returns false when it is not a record.
bool TakeRecord(absl::string_view line, RunInfo& run) {
  FlatJson json(line);
  JsonMember member;
  std::vector<std::pair<absl::string_view, double>> found;
  double batch = -1, epoch = 0, sample = 0, wall = 0;
  while (json.Next(member)) {
    if (member.key == "time/batch") batch = member.number();
    if (member.key == "time/epoch") epoch = member.number();
    if (member.key == "time/sample") sample = member.number();
    if (member.key == "wall") wall = member.number();
    if (!IsOriginOfRecord(member.key)) found.emplace_back(member.key, member.number());
  }
  if (!json.valid() || !(batch >= 0 && batch < 9e18)) return false;
  if (run.last_record == 0) {
    run.steps = static_cast<int64_t>(batch);
    if (epoch >= 0 && epoch < 9e18) run.epoch = static_cast<int64_t>(epoch);
    if (sample >= 0 && sample < 9e18) run.samples = static_cast<int64_t>(sample);
    run.last_record = wall > 0 ? wall : 1;
  }
  for (const auto& [key, value] : found) {
    if (run.metrics.size() < kMaxMetrics) run.metrics.emplace(WithoutEscapes(key), value);
  }
  return true;
}

// Reads the lines of one block, the last first.
bool TakeBlock(absl::string_view block, RunInfo& run) {
  bool any = false;
  while (!block.empty()) {
    const size_t newline = block.rfind('\n');
    if (newline == absl::string_view::npos) break;
    const absl::string_view after = block.substr(newline + 1);
    any = (!after.empty() && TakeRecord(after, run)) || any;
    block = block.substr(0, newline);
  }
  return (!block.empty() && TakeRecord(block, run)) || any;
}

void TakeTail(const std::string& path, const std::vector<std::string>& wanted, RunInfo& run) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  std::string block;
  bool any = false;
  int64_t end = info.st_size;
  for (int64_t size = kFirstBlock; end > 0 && size <= kMaxBlock; size *= 4) {
    const int64_t start = std::max<int64_t>(0, end - size);
    block.resize(static_cast<size_t>(end - start));
    if (pread(fd, block.data(), block.size(), start) != static_cast<ssize_t>(block.size())) return;
    // What comes before the first '\n' may be half a line, which belongs to the next block.
    size_t first = start == 0 ? 0 : block.find('\n');
    if (first == std::string::npos) continue;
    if (start > 0) ++first;
    any = TakeBlock(absl::string_view(block).substr(first), run) || any;
    end = start + static_cast<int64_t>(first);
    if (start == 0) break;
    if (any && std::all_of(wanted.begin(), wanted.end(), [&](const auto& n) { return run.metrics.contains(n); })) break;
  }
}

bool IsHeld(const std::string& folder) {
  const int fd = open(JoinPath(folder, ".lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return held;
}

RunGeneration TakeGeneration(const nlohmann::json& json) {
  RunGeneration g;
  TakeMember(json, "generation", g.generation);
  TakeMember(json, "start_step", g.start_step);
  TakeMember(json, "end_step", g.end_step);
  TakeMember(json, "recomputed_steps", g.recomputed_steps);
  TakeMember(json, "cause", g.cause);
  TakeMember(json, "ended", g.ended);
  TakeMember(json, "decision", g.decision);
  const auto exits = json.find("exits");
  if (exits == json.end() || !exits->is_array()) return g;
  for (const auto& exit : *exits) {
    std::string role, how;
    int64_t rank = 0;
    if (!exit.is_object() || !TakeMember(exit, "role", role) || role != "first cause") continue;
    if (TakeMember(exit, "rank", rank) && TakeMember(exit, "how", how))
      g.first_cause = absl::StrCat("rank ", rank, " ", how);
  }
  return g;
}

bool TakeSummary(const std::string& path, RunInfo& run) {
  const auto text = ReadFile(path, kMaxSummary);
  if (!text.ok()) return false;
  const auto json = ParseJson(*text);
  if (!json.is_object()) return false;
  TakeMember(json, "run_name", run.name);
  TakeMember(json, "exit_reason", run.state);
  TakeMember(json, "restarts", run.restarts);
  TakeMember(json, "world_size", run.world_size);
  TakeMember(json, "started", run.started);
  TakeMember(json, "wall_seconds", run.wall_seconds);
  TakeMember(json, "last_checkpoint", run.last_checkpoint);
  int64_t steps = 0, samples = 0;
  TakeMember(json, "steps", steps);
  TakeMember(json, "samples", samples);
  run.steps = std::max(run.steps, steps);
  run.samples = std::max(run.samples, samples);
  if (const auto all = json.find("all_launches"); all != json.end() && all->is_object()) {
    TakeMember(*all, "launches", run.launches);
    TakeMember(*all, "restarts", run.restarts);
    TakeMember(*all, "recomputed_steps", run.recomputed_steps);
    TakeMember(*all, "wall_seconds", run.wall_seconds);
  }
  if (const auto metrics = json.find("metrics"); metrics != json.end() && metrics->is_object()) {
    for (const auto& [name, value] : metrics->items()) {
      if (value.is_number() && run.metrics.size() < kMaxMetrics) run.metrics.emplace(name, value.get<double>());
    }
  }
  if (const auto list = json.find("generations"); list != json.end() && list->is_array()) {
    for (const auto& g : *list) {
      if (g.is_object() && run.generations.size() < 1000) run.generations.push_back(TakeGeneration(g));
    }
  }
  return true;
}

bool IsRun(const std::string& folder) {
  return PathExists(JoinPath(folder, "summary.json")) || PathExists(JoinPath(folder, "metrics.jsonl"));
}

void FindBelow(const std::string& folder, int depth, std::vector<std::string>& found) {
  if (found.size() >= kMaxRuns) return;
  if (IsRun(folder)) {
    found.push_back(folder);
    return;
  }
  if (depth == 0) return;
  std::error_code error;
  fs::directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !at->is_symlink(ignored)) FindBelow(at->path().string(), depth - 1, found);
  }
}

}  // namespace

absl::StatusOr<RunInfo> ReadRun(const std::string& folder, const std::vector<std::string>& wanted) {
  RunInfo run;
  run.folder = folder;
  run.name = BaseName(AbsolutePath(folder));
  if (!IsRun(folder))
    return absl::NotFoundError(
        absl::StrCat(folder, " is not a run folder: it has no metrics.jsonl and no summary.json"));
  TakeTail(JoinPath(folder, "metrics.jsonl"), wanted, run);
  TakeSummary(JoinPath(folder, "summary.json"), run);
  if (run.state == "running" && !IsHeld(folder)) run.state = "lost";
  return run;
}

std::vector<std::string> FindRuns(const std::string& root) {
  std::vector<std::string> found;
  FindBelow(root, kMaxDepth, found);
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<RunInfo> ReadRuns(const std::vector<std::string>& folders, const std::vector<std::string>& wanted) {
  std::vector<std::optional<RunInfo>> read(folders.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < folders.size(); i = next++) {
      if (auto run = ReadRun(folders[i], wanted); run.ok()) read[i] = *std::move(run);
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::min<size_t>({8, std::max(1u, std::thread::hardware_concurrency()), folders.size() / 8 + 1});
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  std::vector<RunInfo> runs;
  for (auto& run : read) {
    if (run.has_value()) runs.push_back(*std::move(run));
  }
  return runs;
}

}  // namespace composer

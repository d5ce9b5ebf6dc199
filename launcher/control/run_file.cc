// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/run_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/machine_stats.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxBytes = 64 << 10;
constexpr size_t kMaxRuns = 10'000;

absl::Status Bad(absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("run file: ", why)); }

std::string ProcStat(int64_t pid) { return ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096).value_or(""); }

// Returns "pid:[4026531836]"; "" if unknown.
std::string PidNamespace() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

std::string NameOf(const RunFile& run) { return absl::StrCat(run.job, " (pid ", run.pid, ")"); }

std::string Names(const std::vector<RunFile>& runs) {
  return absl::StrJoin(runs, ", ", [](std::string* out, const RunFile& run) { out->append(NameOf(run)); });
}

// Returns the same text for any path to a folder; follows links where possible.
std::string Canonical(absl::string_view path) {
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(AbsolutePath(path), error);
  std::string text = error ? AbsolutePath(path) : canonical.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

std::vector<RunFile> Matching(const std::vector<RunFile>& runs, absl::string_view wanted) {
  std::vector<RunFile> found;
  const std::string folder = Canonical(wanted);
  for (const RunFile& run : runs) {
    const bool same_folder = !run.run_folder.empty() && Canonical(run.run_folder) == folder;
    if (run.job == wanted || same_folder || absl::StrCat(run.pid) == wanted) found.push_back(run);
  }
  return found;
}

absl::Status NoSuchJob(const std::vector<RunFile>& runs, absl::string_view wanted) {
  std::vector<std::string> known;
  for (const RunFile& run : runs) known.push_back(run.job);
  return absl::NotFoundError(absl::StrCat("no job `", wanted, "` of yours runs on this machine",
                                          DidYouMean(wanted, known), "; running: ", Names(runs)));
}

}  // namespace

std::string RunFileJson(const RunFile& run) {
  const Json json = {{"job", run.job},
                     {"run_folder", run.run_folder},
                     {"pid", run.pid},
                     {"pid_start", run.pid_start},
                     {"pid_namespace", run.pid_namespace},
                     {"socket", run.socket},
                     {"started", run.started}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunFile> ParseRunFile(absl::string_view text) {
  if (text.size() > static_cast<size_t>(kMaxBytes)) return Bad("too large");
  const Json json = ParseOrderedJson(text);
  if (!json.is_object()) return Bad("no JSON object");
  RunFile run;
  if (!TakeMember(json, "job", run.job) || !TakeMember(json, "run_folder", run.run_folder) ||
      !TakeMember(json, "socket", run.socket) || !TakeMember(json, "pid", run.pid) ||
      !TakeMember(json, "pid_start", run.pid_start) || !TakeMember(json, "started", run.started)) {
    return Bad("a field is missing or of another type");
  }
  if (json.contains("pid_namespace") && !TakeMember(json, "pid_namespace", run.pid_namespace))
    return Bad("no pid_namespace");
  if (run.pid < 1 || run.pid > std::numeric_limits<pid_t>::max()) return Bad("no pid");
  return run;
}

uint64_t StartOf(absl::string_view proc_stat) {
  const std::vector<absl::string_view> fields = FieldsOfProcStat(proc_stat);
  constexpr size_t kStart = 19;  // field 22 of proc(5); index 0 here is field 3
  uint64_t start = 0;
  if (fields.size() <= kStart || fields[0] == "Z" || !absl::SimpleAtoi(fields[kStart], &start)) return 0;
  return start;
}

bool IsAlive(const RunFile& run) { return run.pid_start != 0 && StartOf(ProcStat(run.pid)) == run.pid_start; }

absl::StatusOr<std::string> RegistryFolder(const Environment& environment) {
  const std::string path = environment.GetOr("COMPOSER_RUNTIME_DIR", absl::StrCat("/tmp/composer-", geteuid()));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoStatus(errno, "cannot make", path);
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot look at", path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 0077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is not a folder of ours with mode 0700; set COMPOSER_RUNTIME_DIR to one"));
  }
  return path;
}

std::vector<RunFile> ListRuns(const std::string& registry) {
  std::vector<RunFile> runs;
  const std::string own_namespace = PidNamespace();
  for (const std::string& name : ListDir(registry).value_or(std::vector<std::string>())) {
    if (!absl::EndsWith(name, ".json") || runs.size() >= kMaxRuns) continue;
    const std::string path = JoinPath(registry, name);
    const auto text = ReadFile(path, kMaxBytes);
    if (!text.ok()) continue;
    auto run = ParseRunFile(*text);
    if (run.ok() && !run->pid_namespace.empty() && run->pid_namespace != own_namespace) continue;
    if (run.ok() && IsAlive(*run)) {
      runs.push_back(*std::move(run));
    } else {
      RemoveFile(path).IgnoreError();
    }
  }
  std::sort(runs.begin(), runs.end(), [](const RunFile& a, const RunFile& b) {
    return std::pair(a.started, a.pid) < std::pair(b.started, b.pid);
  });
  return runs;
}

absl::StatusOr<std::vector<RunFile>> ChooseRuns(const std::vector<RunFile>& runs, absl::string_view wanted, bool all) {
  if (all && !wanted.empty())
    return absl::InvalidArgumentError(absl::StrCat("either `", wanted, "` or --all, not both"));
  if (runs.empty()) return absl::NotFoundError("no job of yours runs on this machine");
  if (all) return runs;
  if (wanted.empty())
    return absl::InvalidArgumentError(absl::StrCat("say which job, by name or pid, or --all; running: ", Names(runs)));
  std::vector<RunFile> found = Matching(runs, wanted);
  if (found.empty()) return NoSuchJob(runs, wanted);
  const bool one_run = !found[0].run_folder.empty() && std::all_of(found.begin(), found.end(), [&](const RunFile& run) {
    return run.job == found[0].job && run.run_folder == found[0].run_folder;
  });
  if (found.size() == 1 || one_run) return found;
  return absl::InvalidArgumentError(
      absl::StrCat(found.size(), " jobs of yours match `", wanted, "`: say which by pid: ", Names(found)));
}

absl::StatusOr<RunFile> FindRun(const std::vector<RunFile>& runs, absl::string_view wanted) {
  if (runs.size() == 1 && wanted.empty()) return runs[0];
  if (runs.size() > 1 && wanted.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(runs.size(), " jobs of yours run here: say which by name or pid: ", Names(runs)));
  }
  ASSIGN_OR_RETURN(const std::vector<RunFile> found, ChooseRuns(runs, wanted, /*all=*/false));
  return found[0];
}

absl::StatusOr<std::unique_ptr<RegisteredRun>> RegisteredRun::Make(const std::string& registry, RunFile run) {
  run.pid = getpid();
  run.pid_start = StartOf(ProcStat(run.pid));
  run.pid_namespace = PidNamespace();
  run.started = absl::ToUnixSeconds(absl::Now());
  const std::string path = JoinPath(registry, absl::StrCat(run.pid, ".json"));
  RETURN_IF_ERROR(AtomicWriteFile(path, RunFileJson(run), {.mode = 0600, .sync = false}));
  return std::unique_ptr<RegisteredRun>(new RegisteredRun(path));
}

RegisteredRun::~RegisteredRun() { unlink(path_.c_str()); }

}  // namespace composer

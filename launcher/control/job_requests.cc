// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/job_requests.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);
constexpr int64_t kSummaryLimit = 16 << 20;

std::string Who(absl::string_view command) {
  return absl::StrCat("composer ", command, " (user ", getuid(), ", pid ", getpid(), ")");
}

// Returns how the job ended according to its summary; "" for a program, or if the summary is not on this machine.
std::string DescribeEnd(const std::string& run_folder) {
  if (run_folder.empty()) return "";
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(run_folder, "summary.json"), kSummaryLimit);
  if (!text.ok()) return "";
  const auto json = ParseJson(*text);
  if (!json.is_object()) return "";
  std::string checkpoint;
  int64_t steps = 0;
  const std::string end = TakeMember(json, "steps", steps) ? absl::StrCat(" at step ", steps) : "";
  TakeMember(json, "last_checkpoint", checkpoint);
  return absl::StrCat(end, "; last checkpoint: ", checkpoint.empty() ? "none" : checkpoint);
}

// Only our own workers can do more than end, while there are any.
absl::Status CheckCan(const proto::JobStatus& status, const std::string& name, absl::string_view verb) {
  if (status.run_name().empty())
    return absl::InvalidArgumentError(absl::StrCat(name, " is not a YAML job: a program cannot be asked to ", verb));
  if (status.state() == "running") return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(name, " is ", status.state(), ": no worker is there to ", verb));
}

absl::StatusOr<std::string> WaitForSave(ControlClient& client, const AskedJob& asked) {
  while (true) {
    const absl::StatusOr<proto::JobStatus> status = client.Status();
    // A checkpoint of that very step has all that there was when the save was asked for.
    if (status.ok() && status->last_checkpoint_step() >= asked.step && !status->last_checkpoint().empty())
      return Printable(absl::StrCat(asked.name, " saved ", status->last_checkpoint()));
    if (!status.ok() || status->state() == "finished")
      return absl::UnavailableError(absl::StrCat(asked.name, " has ended, and saved nothing after step ", asked.step));
    absl::SleepFor(kLookEvery);
  }
}

}  // namespace

absl::StatusOr<AskedJob> AskJob(ControlClient& client, JobChange change) {
  ASSIGN_OR_RETURN(const proto::JobStatus status, client.Status());
  const bool trains = !status.run_name().empty();
  AskedJob asked = {.name = absl::StrCat(status.job(), " (pid ", status.pid(), ")"),
                    .run_folder = status.run_folder(),
                    .step = status.step()};
  switch (change) {
    case JobChange::kSave: {
      RETURN_IF_ERROR(CheckCan(status, asked.name, "save"));
      RETURN_IF_ERROR(client.Save(Who("save")));
      const std::string& last = status.last_checkpoint();
      asked.said =
          absl::StrCat(asked.name, ": its workers save a checkpoint after the next step and go on; the newest so far: ",
                       last.empty() ? "none" : last);
      break;
    }
    case JobChange::kProfile:
      RETURN_IF_ERROR(CheckCan(status, asked.name, "profile"));
      RETURN_IF_ERROR(client.Profile(Who("profile")));
      asked.said = absl::StrCat(asked.name, ": its ranks profile the next batches and go on; traces and verdicts: ",
                                JoinPath(status.run_folder(), "traces"));
      break;
    case JobChange::kStacks:
      RETURN_IF_ERROR(CheckCan(status, asked.name, "write stacks"));
      RETURN_IF_ERROR(client.Stacks(Who("stacks")));
      asked.said =
          absl::StrCat(asked.name, ": its ranks on ", status.host(),
                       " write the stacks of their threads: ", JoinPath(status.run_folder(), "logs/stacks-rank-*.txt"));
      break;
    case JobChange::kDrain:
      RETURN_IF_ERROR(client.Drain(Who("drain")));
      asked.said = absl::StrCat("draining ", asked.name,
                                trains ? ": its workers save a checkpoint and stop" : ": its programs get SIGTERM");
      break;
    case JobChange::kStop:
      RETURN_IF_ERROR(client.Stop(Who("stop")));
      asked.said = absl::StrCat("stopping ", asked.name, ": its ", trains ? "workers" : "programs", " are killed now",
                                trains ? ", without a checkpoint" : "");
      break;
  }
  asked.said = Printable(asked.said);
  return asked;
}

absl::StatusOr<std::string> WaitForJob(ControlClient& client, const std::optional<RunFile>& run, const AskedJob& asked,
                                       JobChange change) {
  if (change == JobChange::kSave) return WaitForSave(client, asked);
  while (run.has_value() ? IsAlive(*run) : client.Status().ok()) absl::SleepFor(kLookEvery);
  return Printable(absl::StrCat(asked.name, " has ended", run.has_value() ? DescribeEnd(asked.run_folder) : ""));
}

}  // namespace composer

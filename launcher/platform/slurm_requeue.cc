// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/slurm_requeue.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "contract/exit_code.h"
#include "launcher/options/program.h"
#include "launcher/platform/command_output.h"

namespace composer {
namespace {

constexpr absl::Duration kRequeueLimit = absl::Seconds(10);

constexpr char kAgain[] = "submit the same job again to go on from the checkpoint";

}  // namespace

absl::StatusOr<SlurmJobFacts> ParseSlurmJob(absl::string_view text) {
  SlurmJobFacts facts;
  bool batch_told = false, requeue_told = false;
  for (const absl::string_view field : absl::StrSplit(text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty())) {
    if (absl::StartsWith(field, "BatchFlag=")) {
      batch_told = true;
      facts.batch = field != "BatchFlag=0";  // more than 1 if it was requeued before
    }
    if (absl::StartsWith(field, "JobState=")) facts.state = std::string(field.substr(9, 40));
    if (absl::StartsWith(field, "Requeue=")) {
      requeue_told = true;
      facts.requeue = field != "Requeue=0";
    }
  }
  if (!batch_told || !requeue_told || facts.state.empty())
    return absl::InvalidArgumentError("scontrol show job: unexpected answer");
  return facts;
}

bool MayRequeue(int exit_code, bool first, bool wanted) {
  return wanted && first && exit_code == exit_code::kPreempted;
}

RequeueDecision DecideRequeue(const SlurmPlace& place, const absl::StatusOr<SlurmJobFacts>& facts) {
  const std::string job = absl::StrCat("Slurm job ", place.job_id);
  if (!facts.ok()) {
    return {false, absl::StrCat(job, " is not requeued (", facts.status().message(), "): ", kAgain)};
  }
  if (!facts->batch) return {false, absl::StrCat(job, " is not a batch job and cannot be requeued: ", kAgain)};
  if (!facts->requeue) return {false, absl::StrCat(job, " was submitted with --no-requeue: ", kAgain)};
  if (facts->state != "RUNNING") {
    return {false, absl::StrCat(job, " is ", facts->state, " and not requeued: ", kAgain)};
  }
  return {true, absl::StrCat(job, " is requeued (restart ", place.restarts + 1, ")")};
}

std::string RequeueSlurmJob(const SlurmPlace& place, const Environment& environment) {
  const std::string scontrol = FindExecutable("scontrol", environment);
  if (scontrol.empty()) {
    return DecideRequeue(place, absl::NotFoundError("there is no scontrol in the PATH")).reason;
  }
  const std::string job = absl::StrCat(place.job_id);
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), scontrol);
    return CommandOutput(words, environment, kRequeueLimit);
  };
  absl::StatusOr<SlurmJobFacts> facts = absl::UnknownError("");
  if (const auto shown = run({"--oneliner", "show", "job", job}); shown.ok()) {
    facts = ParseSlurmJob(*shown);
  } else {
    facts = shown.status();
  }
  const RequeueDecision decision = DecideRequeue(place, facts);
  if (!decision.requeue) return decision.reason;
  if (const auto done = run({"requeue", job}); !done.ok()) {
    return DecideRequeue(place, done.status()).reason;
  }
  return decision.reason;
}

}  // namespace composer

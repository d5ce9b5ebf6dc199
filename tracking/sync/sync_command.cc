// SPDX-License-Identifier: Apache-2.0
#include "tracking/sync/sync_command.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/console.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "contract/exit_code.h"
#include "tracking/open_tracker.h"
#include "views/read/run_info.h"
#include "views/run_commands.h"
#include "views/view_options.h"

namespace composer {
namespace {

absl::Status SyncOne(const std::string& state_file, const std::string& run_state, const Environment& environment,
                     const std::shared_ptr<Http>& http) {
  ASSIGN_OR_RETURN(const TrackerOptions options, ReadTrackerOptions(state_file));
  ASSIGN_OR_RETURN(const std::unique_ptr<Tracker> tracker,
                   OpenTracker(options, environment, http, std::make_shared<std::atomic<bool>>(false)));
  RETURN_IF_ERROR(tracker->Load(/*resumed=*/true));
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(more, tracker->SendSome());
  }
  return tracker->Finish(run_state);
}

std::vector<std::string> StateFiles(const std::string& folder) {
  std::vector<std::string> files;
  const std::string trackers = JoinPath(folder, "trackers");
  const auto names = ListDir(trackers);
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    if (absl::EndsWith(name, ".json")) files.push_back(JoinPath(trackers, name));
  }
  return files;
}

int SyncRun(const std::string& folder, const Environment& environment, const std::shared_ptr<Http>& http) {
  const auto run = ReadRun(folder, {});
  if (!run.ok()) return ViewError(run.status().message());
  if (run->state == "running") return ViewError(absl::StrCat(folder, " is still running and sends by itself"));
  const std::vector<std::string> files = StateFiles(folder);
  if (files.empty()) return ViewError(absl::StrCat(folder, " has no trackers: its job names none under `loggers`"));
  int code = exit_code::kDone;
  for (const std::string& file : files) {
    const absl::Status status = SyncOne(file, run->state, environment, http);
    if (status.ok()) {
      PrintView(absl::StrCat(run->name, ": ", Stem(file), " has everything\n"));
    } else {
      PrintErrorToUser(absl::StrCat(run->name, ": ", Stem(file), ": ", status.message()));
      code = absl::IsInvalidArgument(status) ? exit_code::kUserError : exit_code::kUnavailable;
    }
  }
  return code;
}

}  // namespace

int SyncCommand(const std::vector<std::string>& arguments, const Environment& environment, std::shared_ptr<Http> http) {
  const std::vector<Option> flags = {
      Switch("help", "print this", [](absl::string_view) { return absl::OkStatus(); }, 'h')};
  const ViewCall call = ParseView("composer sync RUN ...",
                                  "Sends what the trackers of ended runs have not received. RUN is a run folder or the "
                                  "name of one in runs/. Keys and passwords come from the environment, as in a run.",
                                  flags, arguments);
  if (call.exit_code >= 0) return call.exit_code;
  if (call.words.empty()) return ViewError("sync takes a RUN: composer sync runs/fashion");
  int worst = exit_code::kDone;
  for (const std::string& word : call.words) {
    const auto folder = FindRunFolder(word);
    const int code = folder.ok() ? SyncRun(*folder, environment, http) : ViewError(folder.status().message());
    worst = std::max(worst, code);
  }
  return worst;
}

}  // namespace composer

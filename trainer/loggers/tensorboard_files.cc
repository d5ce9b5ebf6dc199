// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/tensorboard_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/machine_stats.h"
#include "base/status_macros.h"
#include "storage/mapped_file.h"
#include "trainer/loggers/tensorboard_events.h"

namespace composer {
namespace {

constexpr absl::string_view kPrefix = "events.out.tfevents.";

int64_t SecondsIn(absl::string_view name) {
  name.remove_prefix(kPrefix.size());
  int64_t seconds = 0;
  return absl::SimpleAtoi(name.substr(0, name.find('.')), &seconds) ? seconds : 0;
}

struct Scan {
  EventsEnd end;
  size_t kept = 0;      // bytes
  bool is_new = false;  // the file begins a new life of the run
};

Scan ScanEvents(absl::string_view file, const Timestamp& last) {
  Scan scan;
  const size_t size = file.size();
  while (const auto data = TakeTensorBoardRecord(file)) {
    const EventFacts facts = FactsOfEvent(*data);
    const std::pair<int64_t, int64_t> time(facts.step, std::max<int64_t>(facts.epoch, 0));
    const bool is_record = !facts.is_restart;
    if (is_record && time > std::pair(last.batch, facts.epoch < 0 ? 0 : last.epoch)) break;
    scan.is_new = scan.is_new || (facts.is_restart && facts.step == 0);
    if (facts.has_scalars) {
      const bool same = scan.end.batch == facts.step && scan.end.epoch == facts.epoch;
      scan.end = {facts.epoch, facts.step, same ? scan.end.records + 1 : 1};
    }
    scan.kept = size - file.size();
  }
  return scan;
}

}  // namespace

std::vector<std::string> EventFiles(const std::string& folder) {
  std::vector<std::string> files;
  for (std::string& name : ListDir(folder).value_or(std::vector<std::string>())) {
    if (absl::StartsWith(name, kPrefix)) files.push_back(std::move(name));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string NextEventFile(const std::string& folder, int64_t unix_seconds) {
  for (const std::string& name : EventFiles(folder)) unix_seconds = std::max(unix_seconds, SecondsIn(name) + 1);
  return absl::StrCat(kPrefix, unix_seconds, ".", HostName(), ".", getpid());
}

absl::StatusOr<EventsEnd> RewindEvents(const std::string& folder, const Timestamp& last) {
  std::vector<std::string> files = EventFiles(folder);
  while (!files.empty()) {
    const std::string path = JoinPath(folder, files.back());
    files.pop_back();
    Scan scan;
    size_t size = 0;
    {
      ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
      size = file->bytes().size();
      scan = ScanEvents(file->bytes(), last);
    }
    if (scan.kept < size && truncate(path.c_str(), static_cast<off_t>(scan.kept)) != 0)
      return ErrnoStatus(errno, "cannot cut", path);
    if (scan.end.batch >= 0 || scan.is_new) return scan.end;
  }
  return EventsEnd{};
}

}  // namespace composer

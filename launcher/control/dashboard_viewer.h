// What one viewer of the dashboard is sent as server-sent events: the run's records, the log of one rank and the list
// of the profiler's files, as they grow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/workers/log_follower.h"
#include "views/read/line_follower.h"

namespace composer {

// Returns an event whose data is a text of JSON, which may have line feeds between its values.
std::string ServerSentEvent(absl::string_view name, absl::string_view json);

class DashboardViewer {
 public:
  struct Source {
    std::string run_folder;  // "" for programs, of which there are neither records nor logs
    std::string key;         // what a viewer must know to read logs and traces; "": nobody may
    bool Opens(absl::string_view given) const;
  };
  // The query is that of /events: `from=BYTES&check=HEX`, as an earlier event gave it in "from", and `rank=NUMBER`,
  // whose log is wanted, with `key=KEY`. All may be absent. kPermissionDenied for a log without the right key,
  // kInvalidArgument for anything else.
  static absl::StatusOr<std::unique_ptr<DashboardViewer>> Open(const Source& source, absl::string_view query);

  // Returns what is new since the last call, about 2 MiB at most, or "". Blocks as long as the file system.
  //   event: records   {"from": "…", "rewound": …, "records": […]}; of metrics.jsonl, without lines that are not
  //                    objects of JSON. "rewound": forget all that came before.
  //   event: log       {"rank": …, "generation": …, "begins": …, "text": "…"}; at first the last lines of the newest
  //                    generation, and again when a new one begins. "text" is "" and "error" says why, once, when the
  //                    rank has no log.
  //   event: traces    TracesJson's list, when it has changed; only with a log, that is, with the key.
  std::string News();

  // Whether the last call left something for the next.
  bool more() const { return more_; }

 private:
  DashboardViewer(std::string run_folder, LineCursor cursor, int rank);

  std::string Records();
  std::string Log();
  std::string Traces();
  std::optional<int> NewerGeneration() const;

  const std::string run_folder_;
  LineFollower records_;
  const int rank_;  // -1: none
  LogFollower log_;
  bool told_no_log_ = false;
  std::string traces_;  // as they were told
  absl::Time next_traces_ = absl::InfinitePast();
  bool more_ = false;
};

}  // namespace composer

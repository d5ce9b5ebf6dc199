// Messages to a Slack channel: by an incoming web hook (SLACK_WEBHOOK_URL), or by chat.postMessage
// (SLACK_LOGGING_API_KEY and SLACK_LOGGING_CHANNEL_ID, as Composer's SlackLogger has them). It tells when a run starts,
// goes on after a restart and ends, each once, and the chosen metrics at an interval, many in one message. Slack cannot
// take a message back, so steps that are done again are not reported again (rewound_steps: keep).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "net/http.h"
#include "tracking/tracker_sink.h"

namespace composer {

class SlackSink final : public TrackerSink {
 public:
  struct Options {
    std::string origin, path;               // of the hook, or of chat.postMessage
    std::string api_key, channel;           // "": a hook
    std::vector<std::string> keys, events;  // patterns of metrics; of "start", "restart", "end"
    int64_t every_batches = 1;              // 0: by epochs
    int64_t every_epochs = 0;
    int64_t max_logs_per_message = 50;
    std::shared_ptr<const std::atomic<bool>> given_up;
  };
  // Reads settings include_keys, events (with commas), every_batches, every_epochs, max_logs_per_message and the
  // variables above. kInvalidArgument when neither a hook nor a key with a channel is set.
  static absl::StatusOr<Options> ReadOptions(const std::map<std::string, std::string>& settings,
                                             const Environment& environment);
  SlackSink(std::shared_ptr<Http> http, Options options) : http_(std::move(http)), options_(std::move(options)) {}

  absl::Status Begin(const TrackedRun& run, TrackerMemory& memory) override;
  absl::Status Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) override;
  absl::Status StartOver(const TrackedRun& run, TrackerMemory& memory) override { return absl::OkStatus(); }
  absl::Status Finish(absl::string_view state, TrackerMemory& memory) override;

 private:
  absl::Status Post(const std::string& text);
  bool Tells(absl::string_view event) const;
  bool IsDue(const TrackedRecord& record, const TrackerMemory& memory) const;

  const std::shared_ptr<Http> http_;
  const Options options_;
  std::string run_, start_;  // of TrackedRun
};

}  // namespace composer

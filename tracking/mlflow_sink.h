// MLflow over its REST API 2.0: an experiment, a run, its parameters, tags and metrics. The step of a metric is the
// batch, its timestamp the record's `wall`: MLflow ignores a metric that it already has with the same key, step,
// timestamp and value, so sending again doubles nothing. It cannot remove points: StartOver makes another run and
// deletes the one before (MLflow keeps deleted runs until `mlflow gc`).
// Files go to the run's artifacts, under their paths in the run folder, if the server takes them itself
// (mlflow-artifacts:, its default); where artifacts lie in a bucket they are left out, with a warning. Tables are also
// named in the tag that MLflow's pages look for them in. With the setting registered_model, the newest checkpoint that
// was sent becomes a version of that model when the run ends, once.
// Source: https://mlflow.org/docs/latest/rest-api.html; limits tried with mlflow 3.17.2: 1,000 metrics, 100 parameters
// and 100 tags a request; parameters of 6,000 characters; names of 250, of letters, digits and _-./: and space.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "net/http.h"
#include "nlohmann/json_fwd.hpp"
#include "tracking/tracker_sink.h"

namespace composer {

class MlflowSink final : public TrackerSink {
 public:
  struct Options {
    std::string origin, path;   // "http://host:5000", "" or "/prefix"
    std::string authorization;  // the header's value; "": none
    std::shared_ptr<const std::atomic<bool>> given_up;
  };
  // Reads settings tracking_uri, experiment_name, run_name, tags.NAME and MLFLOW_TRACKING_URI, MLFLOW_TRACKING_TOKEN,
  // MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD. kInvalidArgument for an address that is
  // not http:// or https://.
  static absl::StatusOr<Options> ReadOptions(const std::map<std::string, std::string>& settings,
                                             const Environment& environment);
  MlflowSink(std::shared_ptr<Http> http, Options options) : http_(std::move(http)), options_(std::move(options)) {}

  absl::Status Begin(const TrackedRun& run, TrackerMemory& memory) override;
  absl::Status Send(absl::Span<const TrackedRecord> records, TrackerMemory& memory) override;
  absl::Status SendFile(const TrackedRun& run, const TrackedFile& file, TrackerMemory& memory) override;
  absl::Status StartOver(const TrackedRun& run, TrackerMemory& memory) override;
  absl::Status Finish(absl::string_view state, TrackerMemory& memory) override;

 private:
  absl::StatusOr<nlohmann::json> Call(const std::string& method, const std::string& name, const nlohmann::json& body,
                                      const HttpPairs& query = {});
  absl::StatusOr<nlohmann::json> Send(HttpRequest request, const std::string& name);
  absl::Status AddTable(const std::string& path, TrackerMemory& memory);
  absl::StatusOr<std::string> ExperimentId(const std::string& name);
  absl::Status CreateRun(const TrackedRun& run, TrackerMemory& memory);
  absl::Status SendParameters(TrackerMemory& memory);
  absl::Status Register(TrackerMemory& memory);
  absl::Status Update(const TrackerMemory& memory, const std::string& status);

  const std::shared_ptr<Http> http_;
  const Options options_;
};

// Replaces what MLflow does not take in a name by '_', and cuts it at 250 bytes.
std::string MlflowName(absl::string_view name);

}  // namespace composer

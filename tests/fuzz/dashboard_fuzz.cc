// What reaches the dashboard's port, and what it sends: a request's head, the query of a stream, and the job's status
// with arbitrary names and numbers. Each event must be one line of JSON, whatever a run or a host is called, a log must
// stay closed without the key, and no name of a trace may lead out of its folder.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "launcher/control/dashboard_viewer.h"
#include "launcher/control/http_request.h"
#include "launcher/control/job_status.h"
#include "launcher/control/trace_files.h"
#include "launcher/workers/worker_group.h"
#include "proto/control.pb.h"

namespace composer {
// The room of workers needs much more; here there is no log.
std::string LogPath(const std::string& run_folder, int attempt, int rank) {
  return absl::StrCat(run_folder, "/", attempt, "/", rank);
}
}  // namespace composer

namespace {

void TryRequest(const std::string& text) {
  const composer::HttpRequestHead request = composer::ParseHttpRequest(text);
  if (request.status == 200 && (request.path.empty() || request.path[0] != '/')) std::abort();
  const auto viewer = composer::DashboardViewer::Open({"", "a key that nobody guesses"}, text);
  if (viewer.ok() && !(*viewer)->News().empty()) std::abort();
  const auto trace = composer::TraceDownload("/proc/self", text, /*head=*/true).Next();  // which has no folder `traces`
  if (!trace.ok() || trace->compare(0, 12, "HTTP/1.1 404") != 0) std::abort();
}

void TryStatus(const std::string& bytes) {
  composer::proto::JobStatus status;
  if (!status.ParseFromString(bytes)) return;
  const std::string event = composer::ServerSentEvent("job", composer::StatusJson(status));
  absl::string_view data = event;
  if (!absl::ConsumePrefix(&data, "event: job\ndata: ") || !absl::ConsumeSuffix(&data, "\n\n")) std::abort();
  if (data.find('\n') != absl::string_view::npos || !nlohmann::json::accept(data)) std::abort();
  (void)composer::DescribeStatus(status);
  (void)composer::PrometheusText(status);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  TryRequest(text);
  TryStatus(text);
  return 0;
}

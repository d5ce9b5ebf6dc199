// Reads run folders with arbitrary bytes in them, as other machines and older versions leave them: metrics.jsonl at
// once and in pieces (which must come to the same), summary.json, files.jsonl and a tracker's notes. A tracker must not
// be sent a file outside the folder.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tracking/tracker.h"
#include "views/read/flat_json.h"
#include "views/read/metrics_reader.h"
#include "views/read/run_info.h"

namespace {

using composer::MetricsReader;

const std::string& Folder() {
  static const auto& folder = *new std::string(absl::StrCat("/dev/shm/run_folder_fuzz.", getpid()));
  return folder;
}

void Check(const MetricsReader& reader) {
  for (const composer::MetricSeries& series : reader.series()) {
    if (series.rows.size() != series.values.size()) std::abort();
    for (size_t i = 0; i < series.rows.size(); ++i) {
      if (series.rows[i] >= reader.rows().size() || (i > 0 && series.rows[i] <= series.rows[i - 1])) std::abort();
    }
  }
}

void TryMetrics(absl::string_view bytes, size_t cut) {
  const std::string path = composer::JoinPath(Folder(), "pieces.jsonl");
  std::ofstream(path, std::ios::trunc) << bytes.substr(0, cut % (bytes.size() + 1));
  const MetricsReader::Options options{.path = path, .names = {}, .max_points = 1000, .max_metrics = 50};
  MetricsReader pieces(options);
  const bool first = pieces.Poll().ok();
  Check(pieces);
  std::ofstream(path, std::ios::app) << bytes.substr(cut % (bytes.size() + 1));
  const bool second = pieces.Poll().ok();
  Check(pieces);
  MetricsReader whole(options);
  const bool all = whole.Poll().ok();
  Check(whole);
  if (first && second && all && whole.rows().size() != pieces.rows().size()) std::abort();
}

class InsideOnly final : public composer::TrackerSink {
 public:
  absl::Status Begin(const composer::TrackedRun&, composer::TrackerMemory&) override { return absl::OkStatus(); }
  absl::Status Send(absl::Span<const composer::TrackedRecord>, composer::TrackerMemory&) override {
    return absl::OkStatus();
  }
  absl::Status SendFile(const composer::TrackedRun&, const composer::TrackedFile& file,
                        composer::TrackerMemory&) override {
    const std::string place = composer::AbsolutePath(composer::JoinPath(Folder(), file.path));
    if (!absl::StartsWith(place, Folder())) std::abort();
    return absl::OkStatus();
  }
  absl::Status StartOver(const composer::TrackedRun&, composer::TrackerMemory&) override { return absl::OkStatus(); }
  absl::Status Finish(absl::string_view, composer::TrackerMemory&) override { return absl::OkStatus(); }
};

void TryTracker(absl::string_view bytes) {
  std::ofstream(composer::JoinPath(Folder(), "trackers/mlflow.json"), std::ios::trunc) << bytes;
  composer::TrackerOptions options{
      .name = "mlflow", .run = {"r", Folder(), 1}, .settings = {{"log_artifacts", "true"}}, .launch = 1};
  (void)composer::ReadTrackerOptions(composer::JoinPath(Folder(), "trackers/mlflow.json"));
  composer::Tracker tracker(options, std::make_unique<InsideOnly>());
  if (!tracker.Load(true).ok()) return;
  for (int i = 0; i < 20; ++i) {
    const auto more = tracker.SendSome();
    if (!more.ok() || !*more) break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static const bool made = composer::MakeDirs(composer::JoinPath(Folder(), "trackers")).ok();
  if (!made) std::abort();
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  composer::FlatJson json(bytes);
  for (composer::JsonMember member; json.Next(member);) composer::WithoutEscapes(member.key);
  const char* const files[] = {"metrics.jsonl", "summary.json", "files.jsonl"};
  if (data[0] % 5 < 3) std::ofstream(composer::JoinPath(Folder(), files[data[0] % 5]), std::ios::trunc) << bytes;
  if (data[0] % 5 == 3) TryMetrics(bytes, data[1]);
  if (data[0] % 5 < 2) (void)composer::ReadRun(Folder(), {"loss*"});
  if (data[0] % 5 == 4) TryTracker(bytes);
  if (data[0] % 5 == 2) TryTracker("{\"tracker\": \"mlflow\", \"run_name\": \"r\"}");
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/tensorboard_logger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/png.h"
#include "base/status_macros.h"
#include "tracking/tracked_record.h"
#include "trainer/loggers/record_file.h"

namespace composer {
namespace {

constexpr absl::Duration kFlushAtLeast = absl::Seconds(10);
constexpr size_t kMostPending = 1 << 20;  // bytes of what is written from metrics.jsonl

bool IsOfEvaluation(const MetricRecord& record) {
  for (const MetricValue& metric : record.metrics) {
    if (absl::StartsWith(metric.name, "metrics/") && !absl::StartsWith(metric.name, "metrics/train/")) return true;
  }
  return false;
}

}  // namespace

TensorBoardLogger::TensorBoardLogger(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), flushed_(clock.Now()) {}

TensorBoardLogger::~TensorBoardLogger() {
  if (fd_ >= 0) close(fd_);
}

void TensorBoardLogger::Add(absl::string_view event) { pending_ += TensorBoardRecord(event); }

void TensorBoardLogger::Begin(const EventTime& when) {
  if (std::exchange(begun_, true)) return;
  Add(VersionEvent(when.wall));
  Add(RestartEvent({when.wall, first_step_ >= 0 ? first_step_ : when.step}));
}

void TensorBoardLogger::BeginRecords(const Timestamp& now) {
  last_step_ = now.batch;
  const EventTime when = At(now);
  Begin(when);
  if (hyperparameters_.empty() || std::exchange(has_hyperparameters_, true)) return;
  Add(TextEvent(when, "hyperparameters", HyperparametersMarkdown(hyperparameters_)));
  Add(HyperparametersEvent(when, options_.run_name, hyperparameters_));
}

absl::Status TensorBoardLogger::Start(const RunStart& start) {
  if (start.resumed) {
    first_step_ = start.timestamp.batch + 1;
    ASSIGN_OR_RETURN(const EventsEnd end, RewindEvents(options_.folder, start.timestamp));
    return WriteMissing(end, start.timestamp);
  }
  first_step_ = 0;
  if (EventFiles(options_.folder).empty()) return absl::OkStatus();
  Begin(At(start.timestamp));  // at once: they belong to another life of the run even if this one is killed now
  return Flush();
}

absl::Status TensorBoardLogger::WriteMissing(const EventsEnd& end, const Timestamp& last) {
  if (options_.records.empty()) return absl::OkStatus();
  int64_t known = end.records;
  absl::Status written;
  RETURN_IF_ERROR(ReadRecords(options_.records, end.batch, last, [&](absl::string_view line) {
    TrackedRecord record;
    if (!written.ok() || !ParseTrackedRecord(line, record)) return;
    const bool same_batch = record.row.batch == end.batch;
    if (same_batch && (end.epoch < 0 || record.row.epoch < end.epoch)) return;
    if (same_batch && record.row.epoch == end.epoch && known-- > 0) return;
    std::vector<MetricValue> metrics;
    for (const auto& [name, value] : record.values) metrics.push_back({name, value});
    const absl::Time wall = absl::UnixEpoch() + absl::Seconds(record.row.wall);
    Begin({wall, record.row.batch});
    Add(ScalarsEvent({wall, record.row.batch, record.row.epoch}, metrics));
    if (pending_.size() > kMostPending) written = Flush();
  }));
  RETURN_IF_ERROR(written);
  return Flush();
}

absl::Status TensorBoardLogger::Write(const MetricRecord& record) {
  BeginRecords(record.timestamp);
  Add(ScalarsEvent(At(record.timestamp), record.metrics));
  const bool due = record.timestamp.batch - flushed_step_ >= options_.flush_interval ||
                   clock_.Now() - flushed_ >= kFlushAtLeast || IsOfEvaluation(record);
  return due ? Flush() : absl::OkStatus();
}

absl::Status TensorBoardLogger::WriteHyperparameters(const Hyperparameters& hyperparameters) {
  hyperparameters_ = hyperparameters;
  return absl::OkStatus();
}

absl::Status TensorBoardLogger::WriteImages(const ImageRecord& record) {
  if (record.images.empty()) return absl::OkStatus();
  BeginRecords(record.timestamp);
  std::vector<std::string> pngs;
  for (const Image& image : record.images) {
    ASSIGN_OR_RETURN(std::string png, EncodePng({image.height, image.width, image.channels, image.pixels}));
    pngs.push_back(std::move(png));
  }
  Add(ImagesEvent(At(record.timestamp), record.name, record.images[0].width, record.images[0].height, pngs));
  return Flush();
}

absl::Status TensorBoardLogger::WriteTable(const TableRecord& record) {
  BeginRecords(record.timestamp);
  Add(TextEvent(At(record.timestamp), record.name, TableMarkdown(record)));
  return Flush();
}

absl::Status TensorBoardLogger::Open() {
  if (fd_ >= 0) return absl::OkStatus();
  RETURN_IF_ERROR(MakeDirs(options_.folder));
  const std::string base = JoinPath(options_.folder, NextEventFile(options_.folder, absl::ToUnixSeconds(clock_.Now())));
  // The name is taken when two loggers start at the same time.
  for (int copy = 0; fd_ < 0 && copy < 100; ++copy) {
    path_ = copy == 0 ? base : absl::StrCat(base, ".", copy);
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  return fd_ >= 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot create", path_);
}

absl::Status TensorBoardLogger::Flush() {
  flushed_step_ = last_step_;
  flushed_ = clock_.Now();
  const std::string records = std::exchange(pending_, "");
  if (records.empty()) return absl::OkStatus();
  const absl::Status status = Append(records);
  // A file that is still empty needs its first records again.
  if (!status.ok() && (fd_ < 0 || lseek(fd_, 0, SEEK_END) == 0)) begun_ = has_hyperparameters_ = false;
  return status;
}

// Appends all of the records or, as far as the disk allows, nothing: a reader stops at a torn record.
absl::Status TensorBoardLogger::Append(absl::string_view records) {
  RETURN_IF_ERROR(Open());
  const off_t start = lseek(fd_, 0, SEEK_END);
  const absl::Status written = WriteAll(fd_, records, path_);
  if (!written.ok() && (start < 0 || ftruncate(fd_, start) != 0)) close(std::exchange(fd_, -1));
  return written;
}

absl::Status TensorBoardLogger::Close() {
  if (has_hyperparameters_) Add(SessionEndEvent({clock_.Now(), last_step_}));
  return Flush();
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/tensorboard_logger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "trainer/loggers/png.h"
#include "trainer/loggers/tensorboard_events.h"

namespace composer {
namespace {

constexpr absl::Duration kFlushAtLeast = absl::Seconds(10);

std::string HostName() {
  char name[256] = "localhost";
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

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

void TensorBoardLogger::Begin(const Timestamp& now) {
  last_step_ = now.batch;
  if (std::exchange(begun_, true)) return;
  const EventTime when{clock_.Now(), now.batch};
  Add(VersionEvent(when.wall));
  Add(RestartEvent(when));
  if (hyperparameters_.empty()) return;
  Add(TextEvent(when, "hyperparameters", HyperparametersMarkdown(hyperparameters_)));
  Add(HyperparametersEvent(when, options_.run_name, hyperparameters_));
}

absl::Status TensorBoardLogger::Write(const MetricRecord& record) {
  Begin(record.timestamp);
  Add(ScalarsEvent({clock_.Now(), record.timestamp.batch}, record.metrics));
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
  Begin(record.timestamp);
  std::vector<std::string> pngs;
  for (const Image& image : record.images) {
    ASSIGN_OR_RETURN(std::string png, EncodePng(image));
    pngs.push_back(std::move(png));
  }
  Add(ImagesEvent({clock_.Now(), record.timestamp.batch}, record.name, record.images[0].width, record.images[0].height,
                  pngs));
  return Flush();
}

absl::Status TensorBoardLogger::WriteTable(const TableRecord& record) {
  Begin(record.timestamp);
  Add(TextEvent({clock_.Now(), record.timestamp.batch}, record.name, TableMarkdown(record)));
  return Flush();
}

absl::Status TensorBoardLogger::Open() {
  if (fd_ >= 0) return absl::OkStatus();
  RETURN_IF_ERROR(MakeDirs(options_.folder));
  const std::string base =
      JoinPath(options_.folder,
               absl::StrCat("events.out.tfevents.", absl::ToUnixSeconds(clock_.Now()), ".", HostName(), ".", getpid()));
  // The name is taken when, for example, two loggers of one process start in the same second.
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
  if (!status.ok() && (fd_ < 0 || lseek(fd_, 0, SEEK_END) == 0)) begun_ = false;
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
  if (begun_ && !hyperparameters_.empty()) Add(SessionEndEvent({clock_.Now(), last_step_}));
  return Flush();
}

}  // namespace composer

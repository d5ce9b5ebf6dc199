// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/sample_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "trainer/core/state.h"

namespace composer {

SampleRecorder::~SampleRecorder() {
  if (fd_ >= 0) close(fd_);
}

absl::Status SampleRecorder::Run(Event event, State& state, Logger& logger) {
  if (state.identity.tensor_rank > 0) return absl::OkStatus();
  return event == Event::kFitStart ? Open(state) : Write(state);
}

absl::Status SampleRecorder::Open(const State& state) {
  if (fd_ >= 0) return absl::OkStatus();
  if (state.identity.run_folder.empty())
    return absl::FailedPreconditionError("sample_recorder needs a run_folder to write to");
  const std::string folder = JoinPath(state.identity.run_folder, "logs");
  RETURN_IF_ERROR(MakeDirs(folder));
  path_ = JoinPath(folder, absl::StrCat("samples-rank", state.identity.rank, ".jsonl"));
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd_ >= 0 ? absl::OkStatus() : ErrnoStatus(errno, "open", path_);
}

absl::Status SampleRecorder::Write(const State& state) {
  line_.clear();
  absl::StrAppend(&line_, "{\"epoch\":", state.timestamp.epoch, ",\"batch\":", state.timestamp.batch + 1,
                  ",\"sample_ids\":[");
  const char* separator = "";
  for (const int64_t id : state.batch.sample_ids) {
    absl::StrAppend(&line_, separator, id);
    separator = ",";
  }
  line_ += "]}\n";
  const ssize_t written = write(fd_, line_.data(), line_.size());
  if (written == static_cast<ssize_t>(line_.size())) return absl::OkStatus();
  return ErrnoStatus(written < 0 ? errno : ENOSPC, "write", path_);
}

}  // namespace composer

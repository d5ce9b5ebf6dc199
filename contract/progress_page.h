// One page of memory that a worker and its launcher share through a small file: how far the worker has come.
//
// The worker stores after each step (a few plain stores: no system call, no lock); the launcher may read at any time,
// even after the worker was killed with SIGKILL, since the page lives in the file and not in the process. There is one
// writer. The numbers of a step are stored before its `batch`, so a reader that sees batch n sees at least step n's
// samples. Errors: kNotFound / kPermissionDenied / kResourceExhausted of the file, kInvalidArgument when it is not a
// progress page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace composer {

struct ProgressSnapshot {
  int64_t batch = 0;                   // optimizer steps since the run began
  int64_t samples = 0;                 // samples since the run began
  int32_t phase = 0;                   // a proto::Phase; 0 until the worker has reported one
  double loss = 0;                     // of the last step; NaN: none yet
  double data_wait = 0;                // share of the last steps' time in which batches were waited for; NaN: none yet
  int64_t first_step_unix_micros = 0;  // when the first step of this page's generation was done; 0: not yet
  int64_t heartbeat = 0;               // increases while the worker lives
};

class ProgressPage {
 public:
  // Creates a fresh page and replaces an existing file. The launcher makes one for each worker and generation.
  static absl::StatusOr<ProgressPage> Create(const std::string& path);
  // Opens a page that a launcher made.
  static absl::StatusOr<ProgressPage> Open(const std::string& path);

  ProgressPage(ProgressPage&& other) noexcept;
  ProgressPage& operator=(ProgressPage&& other) noexcept;
  ~ProgressPage();

  // Sets where the run stands before the first step (after loading a checkpoint).
  void SetStart(int64_t batch, int64_t samples);
  void RecordStep(int64_t batch, int64_t samples, double loss, double data_wait);
  void SetPhase(int32_t phase);
  void Beat();

  ProgressSnapshot Read() const;

 private:
  struct Layout;
  explicit ProgressPage(Layout* layout) : layout_(layout) {}
  static absl::StatusOr<ProgressPage> Map(const std::string& path, int open_flags);

  Layout* layout_;  // the mapping; null after a move
};

}  // namespace composer

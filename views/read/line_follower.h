// Follows a file that another process appends lines to, by byte offset: each whole line is delivered once, half a line
// waits for its rest. metrics.jsonl is also cut (a resumed run repeats steps) and replaced (a run begins anew); then
// the reader is told to forget what it has, and begins at the first line again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// A LineCursor says how far a file was read, and recognises whether what was read is still there.
struct LineCursor {
  int64_t offset = 0;  // bytes
  uint64_t check = 0;  // FNV-1a of the last (at most 256) bytes before the offset
};

class LineFollower {
 public:
  static constexpr size_t kMaxLine = 1 << 20;  // bytes; longer lines are left out

  explicit LineFollower(std::string path, LineCursor cursor = {}) : path_(std::move(path)), cursor_(cursor) {}

  struct Progress {
    bool rewound = false;  // the file no longer begins with what was read: nothing was delivered, the cursor is at 0
    bool more = false;     // `max_bytes` ended the call, not the file
  };
  // Calls `take` with each whole new line, without its '\n', for about `max_bytes` of them. kNotFound when there is no
  // file, kFailedPrecondition when it is not a regular file. A caller that cannot use the lines sets the cursor back.
  absl::StatusOr<Progress> Read(int64_t max_bytes, const std::function<void(absl::string_view line)>& take);

  const LineCursor& cursor() const { return cursor_; }
  void set_cursor(const LineCursor& cursor) { cursor_ = cursor; }
  int64_t long_lines() const { return long_lines_; }

 private:
  // Delivers the whole lines of `block`; returns how many bytes they have.
  size_t TakeLines(absl::string_view block, const std::function<void(absl::string_view)>& take);

  const std::string path_;
  LineCursor cursor_;
  bool in_long_line_ = false;
  int64_t long_lines_ = 0;
  std::string block_;  // reused
};

}  // namespace composer

// Writes to a descriptor that nobody may read for a while (a terminal after Ctrl-S, `| less`, a stuck ssh) without
// making the callers wait: Write only fills a bounded buffer, which a separate thread empties. What does not fit is
// dropped and counted, and a line in its place says how much is missing.
// Thread-safe; only Flush waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

class ConsoleWriter {
 public:
  static constexpr size_t kCapacity = 1 << 20;  // for the output of the workers
  static constexpr size_t kReserve = 4 << 20;   // in addition, for what cannot wait

  // `fd` is not owned. `capacity` is for tests.
  explicit ConsoleWriter(int fd, size_t capacity = kCapacity);
  // Drops what is not written yet; a thread that is stuck in write(2) is abandoned with its buffer.
  ~ConsoleWriter();
  ConsoleWriter(const ConsoleWriter&) = delete;
  ConsoleWriter& operator=(const ConsoleWriter&) = delete;

  enum class Urgency {
    kOutput,  // output of workers: limited by the capacity
    kUrgent,  // our own messages, and what would be lost for good: may use the reserve too
  };
  enum class Place {
    kHere,     // where the bytes before it ended
    kNewLine,  // at the beginning of a line: an unfinished progress bar is ended first
  };
  void Write(absl::string_view bytes, Urgency urgency = Urgency::kOutput, Place place = Place::kHere);

  // HasRoom returns whether output would be accepted now. WakeWhenRoom takes an eventfd that is written when a full
  // buffer has room again; -1: none.
  bool HasRoom() const;
  void WakeWhenRoom(int wake_fd);

  // Waits until everything is written. Gives up and returns false when no byte was taken for `patience`, or when
  // `interrupted` returns true. Also returns true when the reader has gone.
  bool Flush(absl::Duration patience, const std::function<bool()>& interrupted = {});

 private:
  struct State;

  const std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
  std::thread thread_;
};

}  // namespace composer

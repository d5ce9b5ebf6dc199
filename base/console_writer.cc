// SPDX-License-Identifier: Apache-2.0
#include "base/console_writer.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace composer {
namespace {

constexpr size_t kPiece = 4096;  // one write(2): small, so that Flush sees a slow reader's progress
constexpr absl::Duration kLook = absl::Milliseconds(20);
constexpr absl::Duration kJoinWait = absl::Milliseconds(100);

// Waits as long as necessary. Returns the number of bytes taken; -1: nobody reads any more.
ssize_t WriteSome(int fd, absl::string_view bytes) {
  while (true) {
    const ssize_t count = write(fd, bytes.data(), std::min(bytes.size(), kPiece));
    if (count >= 0) return count;
    if (errno != EAGAIN && errno != EINTR) return -1;
    pollfd wait = {fd, POLLOUT, 0};
    if (errno == EAGAIN) poll(&wait, 1, -1);
  }
}

}  // namespace

struct ConsoleWriter::State {
  State(int descriptor, size_t bytes) : fd(descriptor), capacity(bytes) {}

  const int fd;
  const size_t capacity;
  absl::Mutex mutex;
  std::string pending ABSL_GUARDED_BY(mutex);
  size_t unwritten ABSL_GUARDED_BY(mutex) = 0;  // pending, and what the thread is writing
  uint64_t dropped ABSL_GUARDED_BY(mutex) = 0;  // bytes that no line has reported yet
  uint64_t taken ABSL_GUARDED_BY(mutex) = 0;    // by the reader, in total
  bool in_line ABSL_GUARDED_BY(mutex) = false;  // the last byte was not "\n"
  bool gone ABSL_GUARDED_BY(mutex) = false;     // the reader has gone
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  int wake_fd ABSL_GUARDED_BY(mutex) = -1;

  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex) { return stopping || !pending.empty(); }
  // After a drop, there is room again only at half the capacity: one gap instead of many.
  bool HasRoom() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return gone || unwritten < (dropped > 0 ? capacity / 2 : capacity);
  }

  void Append(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    pending.append(bytes.data(), bytes.size());
    unwritten += bytes.size();
    in_line = bytes.back() != '\n';
  }
  void TellDropped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (dropped == 0) return;
    Append(absl::StrCat(in_line ? "\n" : "", "composer: ", std::exchange(dropped, 0),
                        " bytes of output are missing here: nobody read them in time\n"));
  }

  void Run() {
    while (true) {
      std::string bytes;
      {
        absl::MutexLock lock(&mutex);
        mutex.Await(absl::Condition(this, &State::HasWork));
        if (stopping) break;
        bytes = std::exchange(pending, "");
      }
      if (!WriteAll(bytes)) break;
    }
    absl::MutexLock lock(&mutex);
    ended = true;
  }

  bool WriteAll(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = WriteSome(fd, bytes);
      const size_t done = count < 0 ? bytes.size() : static_cast<size_t>(count);
      bytes.remove_prefix(done);
      absl::MutexLock lock(&mutex);
      const bool had_room = HasRoom();
      gone = gone || count < 0;
      unwritten -= done;
      taken += done;
      if (!had_room && HasRoom() && wake_fd >= 0) eventfd_write(wake_fd, 1);
      if (stopping) return false;
    }
    return true;
  }
};

ConsoleWriter::ConsoleWriter(int fd, size_t capacity)
    : state_(std::make_shared<State>(fd, capacity)), thread_([state = state_] { state->Run(); }) {}

ConsoleWriter::~ConsoleWriter() {
  bool ended = false;
  {
    absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
    state_->wake_fd = -1;
    ended = state_->mutex.AwaitWithTimeout(absl::Condition(&state_->ended), kJoinWait);
  }
  ended ? thread_.join() : thread_.detach();
}

void ConsoleWriter::Write(absl::string_view bytes, Urgency urgency, Place place) {
  State& s = *state_;
  absl::MutexLock lock(&s.mutex);
  if (bytes.empty() || s.gone) return;
  const bool fits = urgency == Urgency::kUrgent ? s.unwritten + bytes.size() <= s.capacity + kReserve : s.HasRoom();
  if (!fits) {
    s.dropped += bytes.size();
    return;
  }
  s.TellDropped();
  if (place == Place::kNewLine && s.in_line) s.Append("\n");
  s.Append(bytes);
}

bool ConsoleWriter::HasRoom() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->HasRoom();
}

void ConsoleWriter::WakeWhenRoom(int wake_fd) {
  absl::MutexLock lock(&state_->mutex);
  state_->wake_fd = wake_fd;
}

bool ConsoleWriter::Flush(absl::Duration patience, const std::function<bool()>& interrupted) {
  State& s = *state_;
  absl::MutexLock lock(&s.mutex);
  if (!s.gone) s.TellDropped();
  uint64_t taken = s.taken;
  absl::Time since = absl::Now();
  const auto done = [&s]() ABSL_SHARED_LOCKS_REQUIRED(s.mutex) { return s.gone || s.unwritten == 0; };
  while (!s.mutex.AwaitWithTimeout(absl::Condition(&done), kLook)) {
    if (s.taken != taken) since = absl::Now();
    taken = s.taken;
    if (absl::Now() - since >= patience || (interrupted && interrupted())) return false;
  }
  return true;
}

}  // namespace composer

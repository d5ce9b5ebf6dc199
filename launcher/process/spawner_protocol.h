// The protocol between the launcher and its spawner, over a SOCK_SEQPACKET pair. Both ends are the same binary, so
// messages are plain structs. A spawn request carries three descriptors: the process spec (a memfd), stdout and stderr.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

struct SpawnerRequest {
  enum Kind : int32_t {
    kSpawn,  // answered by kStarted or kSpawnFailed with the same tag
    kKill,   // sends `signal` to the process group of `pid`; does nothing if it has been reaped
    kSweep,  // kills what workers left behind: every child that was not spawned by request (no answer)
  };
  Kind kind;
  int32_t tag;
  int32_t pid;
  int32_t signal;
};

struct SpawnerNotice {
  enum Kind : int32_t {
    kStarted,
    kSpawnFailed,  // value is an absl::StatusCode; text says why
    kExited,       // value is the wait status
  };
  Kind kind;
  int32_t tag;
  int32_t pid;
  int32_t value;
  std::array<char, 256> text;  // NUL-terminated
};

inline constexpr int kSpawnDescriptors = 3;

// Sends a request with descriptors attached. Returns kUnavailable when the peer is gone.
absl::Status SendRequest(int socket, const SpawnerRequest& request,
                         const std::array<int, kSpawnDescriptors>* descriptors);

struct ReceivedRequest {
  SpawnerRequest request;
  std::array<int, kSpawnDescriptors> descriptors = {-1, -1, -1};  // the receiver must close them
};
// Returns kUnavailable when the peer is gone.
absl::StatusOr<ReceivedRequest> ReceiveRequest(int socket);

}  // namespace composer

// Proves to other nodes that a process is alive: it sends a word that nobody else knows to whoever connects, and
// nothing more. The kernel alone cannot prove this: it also accepts connections for a frozen process, and refuses them
// for one that is gone.
// The word is random but not secret: it distinguishes the process from another one at the same port.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/common.pb.h"

namespace composer {

class Liveness {
 public:
  static constexpr size_t kMaxWordBytes = 64;

  // Listens on a free port of `address`, or of all interfaces when `address` does not belong to this machine (NAT).
  // Uses one thread. Returns the errors of ListenOnTcp.
  static absl::StatusOr<std::unique_ptr<Liveness>> Show(const std::string& address, const std::string& word);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // Returns where other nodes find this process.
  const proto::Liveness& place() const { return place_; }

 private:
  Liveness(int fd, int port, const std::string& address, const std::string& word);
  void Loop() const;

  const int fd_;
  const int stop_fd_;
  proto::Liveness place_;
  std::thread thread_;
};

// Connects to `place` and reads the word. Blocks for at most `limit`, plus the resolver's time when the address is a
// name.
bool SeesLife(const proto::Liveness& place, absl::Duration limit);

}  // namespace composer

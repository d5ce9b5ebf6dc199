// That a process lives, shown to other nodes: it sends a word that nobody else knows to whoever connects, and nothing more.
// The kernel alone cannot: it accepts connections also for a process that is frozen, and refuses them for one that is gone.
// The word is random, no secret: it tells the process from another one at its port.
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

  // On a free port of `address`, or of all interfaces where that is not one of this machine's (NAT). Errors of ListenOnTcp.
  // One thread.
  static absl::StatusOr<std::unique_ptr<Liveness>> Show(const std::string& address, const std::string& word);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // For the other nodes.
  const proto::Liveness& place() const { return place_; }

 private:
  Liveness(int fd, int port, const std::string& address, const std::string& word);
  void Loop() const;

  const int fd_;
  const int stop_fd_;
  proto::Liveness place_;
  std::thread thread_;
};

// Connects there and reads the word; at most `limit` for all, but for the resolver's time where the address is a name.
bool SeesLife(const proto::Liveness& place, absl::Duration limit);

}  // namespace composer

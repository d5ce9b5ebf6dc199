// CommunicatorExchange lets the ranks of a run pass on what one of them has read of a checkpoint, over their
// communicator, which is idle while they load.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "checkpoint/exchange/byte_exchange.h"
#include "trainer/core/communicator.h"

namespace composer {

// Bytes go through the communicator's device when that is a GPU. What the communicator throws is returned as
// kUnavailable.
class CommunicatorExchange final : public ByteExchange {
 public:
  // `communicator` must outlive this object.
  explicit CommunicatorExchange(Communicator& communicator) : communicator_(communicator) {}

  int rank() const override { return communicator_.rank(); }
  int world_size() const override { return communicator_.world_size(); }
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::StatusOr<bool> All(bool value) override;
  absl::StatusOr<std::unique_ptr<ByteExchange>> Split(int color) override;

 private:
  explicit CommunicatorExchange(std::unique_ptr<Communicator> own) : own_(std::move(own)), communicator_(*own_) {}

  const std::unique_ptr<Communicator> own_;  // of a split-off group
  Communicator& communicator_;
};

}  // namespace composer

// What one rank brings to a save: the tensors that it writes, in host memory, and its small state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/host_buffer.h"
#include "checkpoint/state_dict.h"
#include "checkpoint/writer.h"

namespace composer {

struct Snapshot {
  std::vector<HostTensor> own;     // written by this rank: OwnParts (writer.h)
  std::vector<std::string> names;  // of all tensors, in the state's order
  std::map<std::string, std::string> small;
};

// No copy of what lies contiguous in host memory: the state must not change while the snapshot is in use.
// kInvalidArgument: a tensor that cannot be stored. kInternal: what LibTorch throws (a device error).
// `sharded_bytes`: as for OwnParts (writer.h).
absl::StatusOr<Snapshot> BorrowState(const StateDict& state, int rank, int world_size,
                                     absl::Span<const int64_t> sharded_bytes = {});

// A copy of this rank's tensors in `buffer`: once it returns, the state may change. Copies from a device run one after
// the other in its current stream, which is waited for once. The snapshot is valid until the buffer's next use.
// Ranks are taken to have equally many bytes of sharded tensors: asking them would cost a round of messages.
// Errors: as BorrowState; kResourceExhausted when there is no memory for the buffer.
absl::StatusOr<Snapshot> CopyState(const StateDict& state, int rank, int world_size, HostBuffer& buffer);

}  // namespace composer

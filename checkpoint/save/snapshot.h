// What one rank brings to a save: the tensors that it writes, in host memory, and its small state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/format/state_dict.h"
#include "checkpoint/save/host_buffer.h"
#include "checkpoint/save/writer.h"

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

// Snapshots that are copies, one after the other in one buffer. What the first one worked out (which tensors are this
// rank's, and where in the buffer each goes) holds for the next as long as the state has the same tensors: then a
// snapshot costs a comparison and a memcpy for each tensor, and allocates nothing.
// Threads: one at a time.
class Snapshotter {
 public:
  // pinned: host_buffer.h.
  Snapshotter(int rank, int world_size, bool pinned) : rank_(rank), world_size_(world_size), buffer_(pinned) {}

  // Copies this rank's tensors: once it returns, the state may change. Copies from a device run one after the other in
  // its current stream, which is waited for once. The last snapshot is lost.
  // Errors: as BorrowState; kResourceExhausted when there is no memory for the buffer.
  absl::Status Take(const StateDict& state, absl::Span<const int64_t> sharded_bytes = {});
  // The last one that was taken without an error; valid until the next Take.
  const Snapshot& snapshot() const { return snapshot_; }
  int64_t buffer_bytes() const { return buffer_.capacity(); }

 private:
  bool Fits(const StateDict& state);  // is the plan this state's? Then fills sources_
  bool AddSource(const at::Tensor& tensor);
  bool AddShards(const ShardedTensor& tensor);
  absl::Status Plan(const StateDict& state, absl::Span<const int64_t> sharded_bytes);
  void Copy();

  const int rank_;
  const int world_size_;
  HostBuffer buffer_;
  Snapshot snapshot_;
  std::vector<size_t> bytes_;               // of all whole tensors
  std::vector<bool> mine_;                  // of them, those that this rank writes
  std::vector<const at::Tensor*> sources_;  // of snapshot_.own, one each; null: there are no bytes
};

}  // namespace composer

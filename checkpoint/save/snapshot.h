// A snapshot is what one rank contributes to a save: the tensors that it writes, in host memory, and its small state.
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
  std::vector<HostTensor> own;     // written by this rank; see OwnParts (writer.h)
  std::vector<std::string> names;  // of all tensors, in the state's order
  std::map<std::string, std::string> small;
};

// Does not copy what lies contiguously in host memory: the state must not change while the snapshot is in use. Returns
// kInvalidArgument for a tensor that cannot be stored, kInternal for what LibTorch throws (a device error).
// `sharded_bytes` is as for OwnParts (writer.h).
absl::StatusOr<Snapshot> BorrowState(const StateDict& state, int rank, int world_size,
                                     absl::Span<const int64_t> sharded_bytes = {});

// Makes snapshots that are copies, one after the other in one buffer. The plan of the first one (which tensors are this
// rank's, and where in the buffer each goes) is reused as long as the state has the same tensors: a snapshot then costs
// a comparison and a memcpy per tensor, and allocates nothing. Threads: one at a time.
class Snapshotter {
 public:
  // `pinned` is that of host_buffer.h.
  Snapshotter(int rank, int world_size, bool pinned) : rank_(rank), world_size_(world_size), buffer_(pinned) {}

  // Copies this rank's tensors; once it returns, the state may change. Copies from a device run one after the other in
  // its current stream, which is waited for once. The last snapshot is lost. Errors are those of BorrowState, and
  // kResourceExhausted when there is no memory for the buffer.
  absl::Status Take(const StateDict& state, absl::Span<const int64_t> sharded_bytes = {});
  // Returns the last snapshot that was taken without an error; valid until the next Take.
  const Snapshot& snapshot() const { return snapshot_; }
  int64_t buffer_bytes() const { return buffer_.capacity(); }

 private:
  bool Fits(const StateDict& state);  // whether the plan is this state's; then fills sources_
  bool AddSource(const at::Tensor& tensor);
  bool AddShards(const ShardedTensor& tensor);
  absl::Status Plan(const StateDict& state, absl::Span<const int64_t> sharded_bytes);
  void Copy();

  const int rank_;
  const int world_size_;
  HostBuffer buffer_;
  Snapshot snapshot_;
  std::vector<size_t> bytes_;               // of all whole tensors
  std::vector<bool> mine_;                  // whether this rank writes each of them
  std::vector<const at::Tensor*> sources_;  // one for each of snapshot_.own; null: no bytes
};

}  // namespace composer

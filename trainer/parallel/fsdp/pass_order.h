// PassOrder is the order in which the ranks of a sharded run go through the units of the model: the same on all of
// them.
//
// A pass is a list of moves: forward of a block, backward into it, reduction of its gradients; each has collectives.
// The ranks agree on the first pass of a kind (training, forward only) move by move, with a small all-gather before
// each. Every rank says which move it is about to make; a rank with none of its own left (no samples, out of memory, a
// microbatch without loss) says so and makes the others' move. From then on the order is known, and such a rank follows
// it by itself.
//
// A model may leave the known order, as long as all ranks do so alike. Transports over host memory compare the unit in
// each call; for the others the ranks compare a digest of all moves at the end of each step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "trainer/core/communicator.h"

namespace composer {

// Threads: one at a time (the training thread, autograd's inside backward).
class PassOrder {
 public:
  enum class Pass : uint8_t { kTraining, kForwardOnly };
  enum class Kind : uint8_t { kForward = 1, kBackward, kReduce };
  struct Move {
    Kind kind;
    size_t unit;
    bool operator==(const Move&) const = default;
  };
  using NameOf = absl::FunctionRef<std::string(size_t unit)>;

  // `world` has the ranks that go through the model together; it must outlive this object.
  explicit PassOrder(Communicator& world) : world_(world) {}

  // Begins a pass through a model of `units` blocks.
  void Begin(Pass pass, size_t units);
  // Announces a move that this rank is about to make itself. Throws StatusError kInternal on all ranks when they are
  // about to make different ones and the order is not known yet, or when what one sent is not a move.
  void Make(Move move, NameOf name);
  // Returns the others' next move, for a rank without a move of its own (left) in this pass; nullopt when the pass is
  // over. `whole` says that this rank has made a complete pass, as the model wants it, so that later passes can follow
  // it.
  std::optional<Move> Follow(bool whole, NameOf name);
  // Records a move that every rank makes at this point without asking, since all of them know that it is missing.
  void MakeUnasked(Move move) { Digest(move); }

  // Returns a 24-bit digest of all moves since the beginning, or the last call of BeginDigest.
  uint32_t digest() const { return digest_ >> 8 ^ (digest_ & 0xff); }
  void BeginDigest() { digest_ = kFirstDigest; }

 private:
  struct Known {
    std::vector<Move> moves;
    bool agreed = false;
  };
  Known& known() { return known_[static_cast<size_t>(pass_)]; }
  // Exchanges what all ranks say. Returns the move of one of them, or nullopt when none makes one.
  std::optional<Move> Agree(uint64_t own, NameOf name);
  void Digest(Move move);

  Communicator& world_;
  Known known_[2];
  Pass pass_ = Pass::kTraining;
  size_t units_ = 0;
  size_t place_ = 0;      // index into known().moves
  bool strayed_ = false;  // this rank has left the known order in this pass
  static constexpr uint32_t kFirstDigest = 2166136261;
  uint32_t digest_ = kFirstDigest;
};

}  // namespace composer

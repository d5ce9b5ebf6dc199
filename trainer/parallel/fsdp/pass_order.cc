// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/pass_order.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

// A rank sends a word: a move, or one of these.
constexpr uint64_t kNone = 0;       // it has no move and does not know whether the pass is over
constexpr uint64_t kWholePass = 1;  // it has made a whole pass

uint64_t Encode(PassOrder::Move move) { return static_cast<uint64_t>(move.kind) << 32 | move.unit; }

PassOrder::Move Decode(uint64_t word) {
  return {static_cast<PassOrder::Kind>(word >> 32), static_cast<size_t>(word & 0xffffffff)};
}

std::string TextOf(uint64_t word, PassOrder::NameOf name) {
  if (word == kNone || word == kWholePass) return "nothing";
  const PassOrder::Move move = Decode(word);
  const char* const kinds[] = {"", "forward of ", "backward of ", "the reduction of "};
  return absl::StrCat(kinds[static_cast<size_t>(move.kind)], name(move.unit));
}

}  // namespace

void PassOrder::Begin(Pass pass, size_t units) {
  pass_ = pass;
  units_ = units;
  place_ = 0;
  strayed_ = false;
  if (!known().agreed) known().moves.clear();
}

void PassOrder::Make(Move move, NameOf name) {
  Digest(move);
  if (!known().agreed) {
    Agree(Encode(move), name);
    known().moves.push_back(move);
  } else if (!strayed_ && place_ < known().moves.size() && known().moves[place_] == move) {
    ++place_;
  } else {
    strayed_ = true;
  }
}

std::optional<PassOrder::Move> PassOrder::Follow(bool whole, NameOf name) {
  std::optional<Move> move;
  if (!known().agreed) {
    move = Agree(whole ? kWholePass : kNone, name);
    if (move) known().moves.push_back(*move);
  } else if (!strayed_ && place_ < known().moves.size()) {
    move = known().moves[place_++];
  }
  if (move) Digest(*move);
  return move;
}

std::optional<PassOrder::Move> PassOrder::Agree(uint64_t own, NameOf name) {
  const at::TensorOptions longs = at::TensorOptions().device(world_.device()).dtype(at::kLong);
  const at::Tensor mine = at::full({1}, static_cast<int64_t>(own), longs);
  at::Tensor all = at::empty({world_.world_size()}, longs);
  world_.StartAllGather(all, mine)->Wait();
  all = all.cpu();
  const auto* const words = static_cast<const int64_t*>(all.const_data_ptr());
  uint64_t move = kNone;
  bool differ = false, whole = false;
  std::string said;
  for (int rank = 0; rank < world_.world_size(); ++rank) {
    const auto word = static_cast<uint64_t>(words[rank]);
    whole = whole || word == kWholePass;
    if (word == kNone || word == kWholePass) continue;
    if (word >> 32 > static_cast<uint64_t>(Kind::kReduce) || word >> 32 == 0 || (word & 0xffffffff) >= units_) {
      throw StatusError(absl::InternalError(absl::StrCat("rank ", rank, " sent the move ", word,
                                                         " in the order of blocks, which is not one: its memory or ",
                                                         "the transport is damaged")));
    }
    differ = differ || (move != kNone && move != word);
    move = word;
  }
  if (differ) {
    for (int rank = 0; rank < world_.world_size(); ++rank) {
      absl::StrAppend(&said, rank == 0 ? "" : "; ", "rank ", rank, ": ",
                      TextOf(static_cast<uint64_t>(words[rank]), name));
    }
    throw StatusError(absl::InternalError(absl::StrCat(
        "the ranks run the blocks of the model in different orders, which sharding does not allow: ", said)));
  }
  if (move != kNone) return Decode(move);
  known().agreed = whole;
  return std::nullopt;
}

// The digest is FNV-1a with one step per move.
void PassOrder::Digest(Move move) {
  digest_ = (digest_ ^ (static_cast<uint32_t>(move.kind) << 24 ^ static_cast<uint32_t>(move.unit))) * 16777619U;
}

}  // namespace composer

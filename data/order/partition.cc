// SPDX-License-Identifier: Apache-2.0
#include "data/order/partition.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Ids = std::vector<uint32_t>;

bool Divides(int64_t a, int64_t b) { return a % b == 0 || b % a == 0; }

// The nodes for which the sequence is made: `relaxed` keeps to the first ones when the present ones do not fit.
int64_t NodesUsed(const PartitionKey& key) {
  const OrderWorld& world = key.world;
  const bool keep = key.algorithm == PartitionAlgorithm::kRelaxed && world.initial_physical_nodes > 0 &&
                    !Divides(key.canonical_nodes, world.physical_nodes);
  return keep ? world.initial_physical_nodes : world.physical_nodes;
}

int64_t RowStart(int64_t n, int64_t node, int64_t nodes) {
  return static_cast<int64_t>(static_cast<__int128>(n) * node / nodes);
}

// The rows of canonical nodes, all of one length: short rows repeat their last place, and rows are lengthened by
// earlier places until `ratio` physical nodes can share one.
absl::StatusOr<std::vector<Ids>> EqualRows(int64_t n, int64_t nodes, int64_t ratio, bool enough) {
  const int64_t base = (n + nodes - 1) / nodes;
  const int64_t padding = (ratio - base % ratio) % ratio;
  const int64_t length = base + padding;
  std::vector<Ids> rows(static_cast<size_t>(nodes), Ids(static_cast<size_t>(length)));
  if (enough && padding > 0 && base - ratio + 1 - padding < 0)
    return absl::InvalidArgumentError(absl::StrCat(n, " samples are too few to be divided among the physical nodes"));
  for (int64_t node = 0; node < nodes; ++node) {
    Ids& row = rows[static_cast<size_t>(node)];
    if (!enough) {
      for (int64_t k = 0; k < length; ++k) row[static_cast<size_t>(k)] = static_cast<uint32_t>((node * length + k) % n);
      continue;
    }
    const int64_t start = RowStart(n, node, nodes), size = RowStart(n, node + 1, nodes) - start;
    for (int64_t k = 0; k < base; ++k)
      row[static_cast<size_t>(k)] = static_cast<uint32_t>(start + k - (k == base - 1 && size < base ? 1 : 0));
    for (int64_t k = 0; k < padding; ++k)
      row[static_cast<size_t>(base + k)] = row[static_cast<size_t>(base - ratio + 1 - padding + k)];
  }
  return rows;
}

// Lengthens a node's sequence to a multiple of its ranks.
void PadForRanks(int64_t ranks, Ids& ids) {
  const auto size = static_cast<int64_t>(ids.size());
  if (size % ranks == 0) return;
  const int64_t missing = ranks - size % ranks;
  const bool recent = ranks + missing - 1 <= size;
  for (int64_t i = 0; i < missing; ++i) {
    const uint32_t id = ids[static_cast<size_t>(recent ? size - ranks - missing + 1 + i : i % size)];
    ids.push_back(id);
  }
}

absl::StatusOr<Ids> Orig(int64_t n, int64_t canonical, int64_t nodes, int64_t ranks, int64_t batch) {
  const int64_t ratio = std::max<int64_t>(1, nodes / canonical);
  ASSIGN_OR_RETURN(const std::vector<Ids> rows,
                   EqualRows(n, canonical, ratio, n > canonical || (n == canonical && canonical >= nodes)));
  const int64_t length = static_cast<int64_t>(rows[0].size());
  // What each physical node gets: the interleaved sequence's places p, p + nodes, ...
  std::vector<Ids> parts(static_cast<size_t>(nodes));
  for (int64_t i = 0; i < length * canonical; ++i)
    parts[static_cast<size_t>(i % nodes)].push_back(
        rows[static_cast<size_t>(i % canonical)][static_cast<size_t>(i / canonical)]);
  for (Ids& part : parts) PadForRanks(ranks, part);
  const int64_t per_rank = static_cast<int64_t>(parts[0].size()) / ranks;
  Ids sequence;
  for (int64_t from = 0; from < per_rank; from += batch) {
    for (const Ids& part : parts) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        for (int64_t j = from; j < from + batch; ++j)
          sequence.push_back(j < per_rank ? part[static_cast<size_t>(j * ranks + rank)] : kNoSample);
      }
    }
  }
  return sequence;
}

}  // namespace

std::vector<uint32_t> InterleaveOnce(int64_t n, int64_t canonical_nodes) {
  Ids sequence;
  sequence.reserve(static_cast<size_t>(n));
  std::vector<int64_t> starts;
  for (int64_t node = 0; node <= canonical_nodes; ++node) starts.push_back(RowStart(n, node, canonical_nodes));
  for (int64_t k = 0; k * canonical_nodes < n; ++k) {
    for (size_t node = 0; node + 1 < starts.size(); ++node) {
      if (starts[node] + k < starts[node + 1]) sequence.push_back(static_cast<uint32_t>(starts[node] + k));
    }
  }
  return sequence;
}

absl::Status CheckPartition(const PartitionKey& key) {
  const int64_t nodes = NodesUsed(key), canonical = key.canonical_nodes;
  if (!Divides(canonical, nodes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("canonical_nodes (", canonical, ") and the physical nodes (", nodes, ") must divide one another"));
  }
  const int64_t ranks = nodes * key.world.ranks_per_node;
  if (key.global_batch % ranks == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the global batch of ", key.global_batch, " samples cannot be divided by ", ranks, " ranks"));
}

int64_t FullBatches(int64_t n, const PartitionKey& key) {
  const int64_t nodes = NodesUsed(key), ranks = key.world.ranks_per_node;
  const int64_t ratio = std::max<int64_t>(1, nodes / key.canonical_nodes);
  const int64_t row = (n + key.canonical_nodes - 1) / key.canonical_nodes;
  const int64_t of_node = (row + ratio - 1) / ratio * ratio * key.canonical_nodes / nodes;
  return (of_node + ranks - 1) / ranks / (key.global_batch / (nodes * ranks));
}

absl::StatusOr<std::vector<uint32_t>> InterleaveWithRepeats(int64_t n, const PartitionKey& key) {
  RETURN_IF_ERROR(CheckPartition(key));
  const int64_t nodes = NodesUsed(key);
  return Orig(n, key.canonical_nodes, nodes, key.world.ranks_per_node,
              key.global_batch / (nodes * key.world.ranks_per_node));
}

std::vector<std::vector<uint32_t>> CanonicalParts(int64_t n, int64_t canonical_nodes, int64_t ranks_per_node,
                                                  bool repeats) {
  if (repeats) {
    std::vector<Ids> rows = EqualRows(n, canonical_nodes, 1, n >= canonical_nodes).value();
    for (Ids& row : rows) PadForRanks(ranks_per_node, row);
    return rows;
  }
  std::vector<Ids> rows(static_cast<size_t>(canonical_nodes));
  for (int64_t node = 0; node < canonical_nodes; ++node) {
    for (int64_t i = RowStart(n, node, canonical_nodes); i < RowStart(n, node + 1, canonical_nodes); ++i)
      rows[static_cast<size_t>(node)].push_back(static_cast<uint32_t>(i));
  }
  return rows;
}

}  // namespace composer

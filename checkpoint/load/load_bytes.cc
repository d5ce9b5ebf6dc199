// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load/load_bytes.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <future>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/folder/chunk_reader.h"
#include "checkpoint/folder/load_plan.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr size_t kMostErrorText = 400;

int64_t RunBytes(absl::Span<const ChunkRead> run) { return run.back().end - run.front().begin; }

// A Load is what all steps of one load need.
struct Load {
  ObjectStore& store;
  const std::string& checkpoint;
  const Manifest& manifest;
  LoadTargets& targets;
  LoadPlan plan;

  absl::Status Read(absl::Span<const ChunkRead> run, absl::Span<char> into) const {
    return ReadRun(store, checkpoint, manifest, run, into);
  }

  // Verifies the chunks of a run that was read to `bytes` and copies them to their targets unless they are in place.
  absl::Status Take(absl::Span<const ChunkRead> run, absl::string_view bytes, bool in_place) const try {
    for (const ChunkRead& chunk : run) {
      const absl::string_view own = bytes.substr(static_cast<size_t>(chunk.begin - run.front().begin),
                                                 static_cast<size_t>(chunk.end - chunk.begin));
      RETURN_IF_ERROR(CheckChunk(store, checkpoint, manifest, chunk, own));
      if (!in_place) targets.Copy(plan, chunk, own);
      targets.ChunkDone(plan, chunk);
    }
    return absl::OkStatus();
  } catch (const std::exception& error) {  // torch's: out of memory, a device error
    const absl::string_view message = error.what();
    return absl::InternalError(message.substr(0, message.find('\n')));
  }

  // Returns where a direct run goes.
  char* Destination(const ChunkRead& first) const {
    const PlannedCopy& copy = plan.copies[first.first_copy];
    return targets.Data(copy.wanted) + copy.bytes.target_begin + (first.position - copy.bytes.source_begin);
  }
};

Load StartLoad(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest, LoadTargets* targets) {
  Load load{store, checkpoint, manifest, *targets, PlanLoad(manifest, targets->wanted())};
  targets->Expect(load.plan);
  return load;
}

// Returns the runs that are passed on, none of which is direct.
std::vector<ChunkRun> SharedRuns(const LoadPlan& plan) {
  RunLimits limits;
  limits.direct_least = INT64_MAX;
  return RunsOf(plan, limits);
}

// Returns the same value on ranks that read the same bytes in the same runs.
uint64_t Digest(const LoadPlan& plan, const std::vector<ChunkRun>& runs) {
  std::string text;
  for (const ChunkRun& run : runs) {
    const absl::Span<const ChunkRead> chunks = ChunksOf(plan, run);
    absl::StrAppend(&text, chunks.front().file, ":", chunks.front().begin, "-", chunks.back().end, ",");
  }
  return Xxh3(text);
}

// Ranks that wait for other bytes than the others send would wait forever.
absl::Status CheckSameRuns(const Load& load, const std::vector<ChunkRun>& runs, ByteExchange& exchange) {
  uint64_t mine = Digest(load.plan, runs), first = mine;
  RETURN_IF_ERROR(exchange.Broadcast({reinterpret_cast<char*>(&first), sizeof(first)}, 0));
  return AgreeOn(exchange, mine == first ? absl::OkStatus()
                                         : absl::InternalError("this rank wants other whole tensors than rank 0"));
}

// Returns a run in the form in which it is passed on: its bytes, then 0; or the text of an error (cut to fit, padded
// with NUL), then 1.
std::string ReadBlock(const Load& load, absl::Span<const ChunkRead> run) {
  const size_t bytes = static_cast<size_t>(RunBytes(run));
  std::string block(std::max(bytes, kMostErrorText) + 1, '\0');
  const absl::Status read = load.Read(run, absl::MakeSpan(block).first(bytes));
  if (read.ok()) return block;
  std::fill(block.begin(), block.end(), '\0');
  const absl::string_view text = read.message();
  std::memcpy(block.data(), text.data(), std::min(text.size(), kMostErrorText));
  block.back() = '\1';
  return block;
}

absl::Status BlockStatus(const std::string& block, size_t root) {
  if (block.back() == '\0') return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rank ", root, ": ", block.c_str()));
}

absl::Status ReadAlone(const Load& load) {
  const std::vector<ChunkRun> runs = RunsOf(load.plan);
  int64_t total = 0;
  for (const ChunkRun& run : runs) total += RunBytes(ChunksOf(load.plan, run));
  return ForEachRun(runs.size(), ReaderThreads(total), [&](size_t i, std::string& buffer) -> absl::Status {
    const absl::Span<const ChunkRead> chunks = ChunksOf(load.plan, runs[i]);
    const auto bytes = static_cast<size_t>(RunBytes(chunks));
    if (!runs[i].direct) buffer.resize(bytes);
    char* const into = runs[i].direct ? load.Destination(chunks.front()) : buffer.data();
    RETURN_IF_ERROR(load.Read(chunks, {into, bytes}));
    return load.Take(chunks, {into, bytes}, runs[i].direct);
  });
}

absl::Status ReadTogether(const Load& load, ByteExchange& exchange) {
  const std::vector<ChunkRun> runs = SharedRuns(load.plan);
  RETURN_IF_ERROR(CheckSameRuns(load, runs, exchange));
  const auto rank = static_cast<size_t>(exchange.rank()), world = static_cast<size_t>(exchange.world_size());
  const auto read_ahead = [&](size_t i) {
    if (i >= runs.size()) return std::future<std::string>();
    return std::async(std::launch::async,
                      [&load, chunks = ChunksOf(load.plan, runs[i])] { return ReadBlock(load, chunks); });
  };
  std::future<std::string> own = read_ahead(rank);
  absl::Status status;  // of this rank; the others must not wait for it
  std::string block;
  for (size_t i = 0; i < runs.size(); ++i) {
    const absl::Span<const ChunkRead> chunks = ChunksOf(load.plan, runs[i]);
    const auto bytes = static_cast<size_t>(RunBytes(chunks));
    if (i % world == rank) {
      block = own.get();
      own = read_ahead(i + world);
    } else {
      block.resize(std::max(bytes, kMostErrorText) + 1);
    }
    RETURN_IF_ERROR(exchange.Broadcast(absl::MakeSpan(block), static_cast<int>(i % world)));
    RETURN_IF_ERROR(BlockStatus(block, i % world));  // the same on all ranks
    if (status.ok()) status = load.Take(chunks, absl::string_view(block).substr(0, bytes), /*in_place=*/false);
  }
  return status;
}

// Returns, equal on all ranks, for each rank the lowest one that reads the same; itself when it reads nothing.
absl::StatusOr<std::vector<int>> FirstAlike(const Load& load, ByteExchange& exchange) {
  const uint64_t mine = load.plan.chunks.empty() ? 0 : Digest(load.plan, SharedRuns(load.plan));
  std::vector<uint64_t> digests(static_cast<size_t>(exchange.world_size()));
  std::vector<int> first(digests.size());
  for (int rank = 0; rank < exchange.world_size(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    digests[at] = mine;
    RETURN_IF_ERROR(exchange.Broadcast({reinterpret_cast<char*>(&digests[at]), sizeof(uint64_t)}, rank));
    const auto same = std::find(digests.begin(), digests.begin() + rank, digests[at]);
    first[at] = digests[at] == 0 ? rank : static_cast<int>(same - digests.begin());
  }
  return first;
}

}  // namespace

absl::Status ReadAlone(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                       LoadTargets* targets) {
  return ReadAlone(StartLoad(store, checkpoint, manifest, targets));
}

absl::Status ReadTogether(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                          LoadTargets* targets, ByteExchange& exchange) {
  return ReadTogether(StartLoad(store, checkpoint, manifest, targets), exchange);
}

absl::Status ReadInGroups(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                          LoadTargets* targets, ByteExchange& exchange) {
  const Load load = StartLoad(store, checkpoint, manifest, targets);
  ASSIGN_OR_RETURN(const std::vector<int> first, FirstAlike(load, exchange));
  std::vector<int> each(first.size());
  std::iota(each.begin(), each.end(), 0);
  if (first == each) return ReadAlone(load);
  const auto group = exchange.Split(first[static_cast<size_t>(exchange.rank())]);
  ASSIGN_OR_RETURN(const bool all, exchange.All(group.ok()));
  if (!all || (*group)->world_size() == 1)
    // Without a group more is read, but the result is the same.
    return ReadAlone(load);
  return ReadTogether(load, **group);
}

absl::StatusOr<std::string> BroadcastText(ByteExchange& exchange,
                                          absl::FunctionRef<absl::StatusOr<std::string>()> make) {
  absl::StatusOr<std::string> text = "";
  int64_t head[2] = {0, 0};  // code, number of bytes that follow
  if (exchange.rank() == 0) {
    text = make();
    head[0] = static_cast<int64_t>(text.status().code());
    head[1] = static_cast<int64_t>(text.ok() ? text->size() : text.status().message().size());
  }
  RETURN_IF_ERROR(exchange.Broadcast({reinterpret_cast<char*>(head), sizeof(head)}, 0));
  std::string bytes = text.ok() ? *std::move(text) : std::string(text.status().message());
  bytes.resize(static_cast<size_t>(head[1]));
  RETURN_IF_ERROR(exchange.Broadcast(absl::MakeSpan(bytes), 0));
  if (head[0] == 0) return bytes;
  return absl::Status(static_cast<absl::StatusCode>(head[0]), bytes);
}

}  // namespace composer

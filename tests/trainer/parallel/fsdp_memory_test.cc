// Compares what a sharded run really allocates and sends with its plan before the first step.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/spawn_ranks.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/parallel/measured_rank.h"
#include "trainer/models/gpt.h"
#include "trainer/parallel/fsdp/fsdp.h"

namespace composer {
namespace {

constexpr int kSteps = 4;

// There are few tokens, so that activations are small compared with the parameters.
TrainerOptions GptRun(const FsdpOptions& fsdp) {
  TrainerOptions options = SmallRun();
  GptOptions gpt;
  gpt.layers = 4;
  gpt.heads = 4;
  gpt.width = 256;
  gpt.context = 4;
  gpt.vocab = 64;
  options.model = MakeGpt(gpt);
  const at::Tensor tokens = torch::arange(8 * 4).view({8, 4}).remainder(64);
  options.train.dataset = MakeTensorRows(tokens, tokens);
  options.train.global_train_batch_size = 4;
  options.max_duration = Time::Batches(kSteps);
  options.train_metrics_interval = 0;
  options.fsdp = fsdp;
  return options;
}

struct Measured {
  PlannedMemory planned;
  int64_t planned_wire = 0;
  int64_t peak = 0;           // of live bytes after the first step
  std::vector<int64_t> wire;  // of each step
};

Measured Measure(int ranks, int measured_rank, const FsdpOptions& fsdp) {
  ThreadsExchange exchange(ranks);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Measured result;
  SpawnRanks(ranks, [&](int rank) {
    AllocationRecorder recorder(1 << 20);
    if (rank == measured_rank) {
      ASSERT_TRUE(recorder.Start().ok());
    }
    ThreadsCommunicator communicator(exchange, rank);
    TrainerOptions options = GptRun(fsdp);
    MarkedCommunicator marked(communicator, recorder);
    options.communicator = rank == measured_rank ? static_cast<Communicator*>(&marked) : &communicator;
    options.store = store;
    size_t warm = 0, last = 0;  // events
    int64_t sent = 0;
    if (rank == measured_rank) {
      AddCallback(options, {Event::kBatchStart}, [&](State& state) {
        if (state.timestamp.batch == 1) warm = recorder.History().events.size();
        sent = communicator.bytes_sent();
      });
      AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
        last = recorder.History().events.size();
        result.wire.push_back(communicator.bytes_sent() - sent);
        int64_t optimizer = 0;
        for (const auto& [name, tensor] : state.optimizer->state()) optimizer += static_cast<int64_t>(tensor.nbytes());
        const ShardPlan plan = dynamic_cast<Fsdp&>(*state.sharding).Plan(optimizer);
        result.planned = MemoryOf(plan);
        result.planned_wire = WireBytesOf(plan);
      });
    }
    const RunResult run = Train(std::move(options));
    EXPECT_TRUE(run.status.ok()) << run.status;
    recorder.Stop();
    if (rank == measured_rank) {
      const AllocationHistory history = recorder.History();
      ASSERT_EQ(history.dropped, 0);
      result.peak = PeakOf(history, warm, last);
    }
  });
  return result;
}

TEST(FsdpMemory, PeakIsThePlansAndBytesOnTheWireAreExact) {
  for (const ShardingStrategy strategy : {ShardingStrategy::kShardGradOp, ShardingStrategy::kFullShard}) {
    for (const int ranks : {2, 4}) {
      SCOPED_TRACE(testing::Message() << "strategy " << static_cast<int>(strategy) << ", " << ranks << " ranks");
      FsdpOptions fsdp;
      fsdp.strategy = strategy;
      const Measured measured = Measure(ranks, ranks - 1, fsdp);
      const auto planned = static_cast<double>(measured.planned.total());
      std::cout << "planned " << measured.planned.total() << ", peak " << measured.peak << " ("
                << static_cast<double>(measured.peak) / planned << "), wire " << measured.planned_wire << "\n";
      EXPECT_GT(static_cast<double>(measured.peak), 0.98 * planned);
      EXPECT_LT(static_cast<double>(measured.peak), 1.02 * planned);
      ASSERT_EQ(measured.wire.size(), kSteps);
      // In the first step the ranks agree on the order of three moves of each of the four blocks, and on the end, by
      // sending a number to each other rank.
      EXPECT_EQ(measured.wire[0], measured.planned_wire + 13 * 8 * (ranks - 1));
      for (int step = 1; step < kSteps; ++step)
        EXPECT_EQ(measured.wire[static_cast<size_t>(step)], measured.planned_wire);
    }
  }
}

}  // namespace
}  // namespace composer

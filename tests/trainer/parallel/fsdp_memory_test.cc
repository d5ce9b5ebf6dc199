// What a sharded run really allocates and sends, against what its plan says before the first step.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/support/spawn_ranks.h"
#include "tests/trainer/loop/small_run.h"
#include "trainer/callbacks/allocation_recorder.h"
#include "trainer/models/gpt.h"
#include "trainer/parallel/fsdp.h"

namespace composer {
namespace {

constexpr int kSteps = 4;

// Few tokens, so that next to the parameters activations are little.
TrainerOptions GptRun(const FsdpOptions& fsdp) {
  TrainerOptions options = SmallRun();
  GptOptions gpt;
  gpt.layers = 4;
  gpt.heads = 4;
  gpt.width = 128;
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

constexpr char kCollective[] = "collective";

// Marks what the other communicator allocates: its copies belong to the test, not to what is tested.
class MarkedCommunicator final : public Communicator {
 public:
  MarkedCommunicator(Communicator& inner, AllocationRecorder& recorder) : inner_(inner), recorder_(recorder) {}
  int rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  std::unique_ptr<PendingCollective> StartAllReduceSum(at::Tensor tensor) override {
    return Mark([&] { return inner_.StartAllReduceSum(tensor); });
  }
  std::unique_ptr<PendingCollective> StartAllGather(at::Tensor output, at::Tensor input) override {
    return Mark([&] { return inner_.StartAllGather(output, input); });
  }
  std::unique_ptr<PendingCollective> StartReduceScatterSum(at::Tensor output, at::Tensor input) override {
    return Mark([&] { return inner_.StartReduceScatterSum(output, input); });
  }
  void Broadcast(at::Tensor tensor, int root) override {
    recorder_.SetPhase(kCollective);
    inner_.Broadcast(tensor, root);
    recorder_.SetPhase("");
  }

 private:
  struct Pending final : PendingCollective {
    Pending(std::unique_ptr<PendingCollective> started, AllocationRecorder& marked)
        : inner(std::move(started)), recorder(marked) {}
    void Wait() override {
      recorder.SetPhase(kCollective);
      inner->Wait();
      recorder.SetPhase("");
    }
    std::unique_ptr<PendingCollective> inner;
    AllocationRecorder& recorder;
  };
  template <typename Start>
  std::unique_ptr<PendingCollective> Mark(const Start& start) {
    recorder_.SetPhase(kCollective);
    auto pending = std::make_unique<Pending>(start(), recorder_);
    recorder_.SetPhase("");
    return pending;
  }
  std::unique_ptr<Communicator> NewGroup(const std::string& name, int rank, int size) override {
    return inner_.Split(0, name);
  }
  Communicator& inner_;
  AllocationRecorder& recorder_;
};

// Live bytes at most, after so many events.
int64_t PeakAfter(const AllocationHistory& history, size_t begin) {
  std::map<uint64_t, int64_t> live;
  int64_t now = 0, peak = 0;
  for (size_t i = 0; i < history.events.size(); ++i) {
    const AllocationEvent& event = history.events[i];
    const std::vector<std::string>& stack = history.stacks[static_cast<size_t>(event.stack)];
    if (event.kind == AllocationEvent::Kind::kAlloc) {
      if (std::find(stack.begin(), stack.end(), kCollective) != stack.end()) continue;
      live[event.address] = event.bytes;
      now += event.bytes;
    } else if (const auto it = live.find(event.address); it != live.end()) {
      now -= it->second;
      live.erase(it);
    }
    if (i >= begin) peak = std::max(peak, now);
  }
  return peak;
}

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
    size_t warm = 0;
    int64_t sent = 0;
    if (rank == measured_rank) {
      AddCallback(options, {Event::kBatchStart}, [&](State& state) {
        if (state.timestamp.batch == 1) warm = recorder.History().events.size();
        sent = communicator.bytes_sent();
      });
      AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
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
      // Without what Train copies at the end.
      result.peak = PeakAfter(history, warm);
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
      for (const int64_t bytes : measured.wire) EXPECT_EQ(bytes, measured.planned_wire);
    }
  }
}

}  // namespace
}  // namespace composer

// Tests training on 1 to 4 mock devices: strategies, precisions, accumulation, checkpointing, offload, algorithms, the
// profiler and resuming, as cells of one table, beside the same runs on CPU ranks.
//
// In float32 the weights have the CPU's bits, unless gradients are clipped: their norm is summed in another order. With
// amp a GPU runs other operators in the lower precision than a CPU, so that the weights are only near the CPU's, and
// with amp_fp16 the scaler may skip a step more. The bits are then those of the same run with another order of streams.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>

#include "tests/support/accelerator/mock_runs.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/golden_gpt.h"
#include "tests/trainer/parallel/fsdp_product_runs.h"
#include "trainer/algorithms/augment/label_smoothing.h"
#include "trainer/algorithms/ema.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/algorithms/swa.h"
#include "trainer/parallel/activations/activation_checkpoint.h"
#include "trainer/parallel/activations/activation_offload.h"
#include "trainer/profiler/profiler.h"

namespace composer::mock {
namespace {

using testing::IsEmpty;

// Of the weights' norm, by precision; cf. fsdp_product_test.cc.
constexpr double kNearTheCpu[] = {1e-5, 0.05, 0.05, 0.05, 0.15};
constexpr size_t kClipping = 1;  // of the algorithms
constexpr std::array<const char*, 5> kAlgorithms = {"", "gradient_clipping", "label_smoothing", "ema", "swa"};

// A cell of fsdp_product.h, and what a run does besides.
struct MockCell {
  enum Factor : size_t { kAlgorithm = ProductCell::kCount, kProfiler, kResumes, kCount };
  std::array<size_t, kCount> at{};

  ProductCell product() const {
    ProductCell cell;
    std::copy_n(at.begin(), cell.at.size(), cell.at.begin());
    return cell;
  }
  std::string Name() const {
    return product().Name() + ", " + kAlgorithms[at[kAlgorithm]] + (at[kProfiler] == 1 ? ", profiler" : "") +
           (at[kResumes] == 1 ? ", resumes" : "");
  }
};

std::vector<std::array<size_t, MockCell::kCount>> AllCells() {
  std::vector<std::array<size_t, MockCell::kCount>> cells;
  for (const ProductCell& product : AllProductCells()) {
    // The trainer refuses this on a GPU.
    if (product[ProductCell::kStrategy] == kHybridCell && product[ProductCell::kCpuOffload] == 1) continue;
    for (size_t more = 0; more < kAlgorithms.size() * 4; ++more) {
      auto& cell = cells.emplace_back();
      std::copy(product.at.begin(), product.at.end(), cell.begin());
      cell[MockCell::kAlgorithm] = more / 4;
      cell[MockCell::kProfiler] = more / 2 % 2;
      cell[MockCell::kResumes] = more % 2;
    }
  }
  return cells;
}

void AddAlgorithmOf(const MockCell& cell, TrainerOptions& options) {
  switch (cell.at[MockCell::kAlgorithm]) {
    case kClipping:
      options.algorithms.push_back(std::make_unique<GradientClipping>(ClippingType::kNorm, 0.05));
      return;
    case 2:
      options.algorithms.push_back(std::make_unique<LabelSmoothing>());
      return;
    case 3:
      options.algorithms.push_back(std::make_unique<Ema>(EmaOptions{.smoothing = 0.5}));
      return;
    case 4:
      options.algorithms.push_back(std::make_unique<Swa>(SwaOptions{
          .swa_start = Time::Duration(0.2), .swa_end = Time::Duration(0.9), .update_interval = Time::Batches(2)}));
      return;
    default:
      return;
  }
}

// Same as WrapActivations, except that tensors of any size, and those on a CPU, are moved.
void WrapBlocks(bool checkpoint, bool offload, Model& model) {
  for (const auto& block : BlocksOf(model)) {
    if (checkpoint) WrapLayer(*block, std::make_shared<ActivationCheckpoint>());
    if (offload)
      WrapLayer(*block, std::make_shared<ActivationOffload>(
                            *block, ActivationOffload::Options{.min_bytes = 0, .copy_on_cpu = true}));
  }
}

TrainerOptions OptionsOf(const MockCell& cell, const std::string& folder) {
  TrainerOptions options = PlainRunOf(cell.product());
  options.fsdp = FsdpOf(cell.product());
  WrapBlocks(cell.at[ProductCell::kCheckpoint] == 1, cell.at[ProductCell::kActivationOffload] == 1, *options.model);
  AddAlgorithmOf(cell, options);
  options.run_folder = folder;
  if (cell.at[MockCell::kProfiler] == 1) {
    ProfilerOptions profiler;
    profiler.schedule = CyclicSchedule{.active = 2};
    // Kineto records the whole process, and the ranks are threads.
    if (WorldOf(cell.product()) > 1)
      profiler.ops = {.record_shapes = false, .profile_memory = false, .with_flops = false};
    options.callbacks.push_back(std::make_unique<Profiler>(profiler));
  }
  if (cell.at[MockCell::kResumes] == 1) {
    options.save.save_folder = folder + "/checkpoints";
    options.save.save_interval = Time::Batches(5);
  }
  return options;
}

// Rank 0's result; all ranks must have the same.
RunResult RunCell(const MockCell& cell, bool on_mock) {
  const TempDir folder;
  const int size = WorldOf(cell.product());
  const auto run = [&](int64_t batches) {
    const auto options = [&](int /*rank*/) {
      TrainerOptions own = OptionsOf(cell, folder.path());
      own.max_duration = Time::Batches(batches);
      return own;
    };
    return on_mock ? TrainOnMockRanks(size, options) : TrainOnRanks(size, options);
  };
  if (cell.at[MockCell::kResumes] == 1) {
    for (const RunResult& result : run(6)) EXPECT_TRUE(result.status.ok()) << result.status;
  }
  std::vector<RunResult> results = run(10);
  for (const RunResult& result : results) {
    if (!result.status.ok()) results[0].status.Update(result.status);
    EXPECT_EQ(result.resumed_from.empty(), cell.at[MockCell::kResumes] == 0);
    EXPECT_EQ(LargestDifference(result, results[0]), 0) << "all ranks have the same weights";
  }
  return std::move(results[0]);
}

class MockRanks : public OnMock {
 protected:
  void Check(const MockCell& cell, uint64_t seeds = 1) {
    SCOPED_TRACE(cell.Name());
    Machine::Get().Restart(0);
    const RunResult mock = RunCell(cell, /*on_mock=*/true);
    ASSERT_TRUE(mock.status.ok()) << mock.status;
    EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty());
    const RunResult cpu = RunCell(cell, /*on_mock=*/false);
    const size_t precision = cell.at[ProductCell::kPrecision];
    const bool exact = precision == kFp32Cell && cell.at[MockCell::kAlgorithm] != kClipping;
    if (exact) {
      ExpectSameRun(mock, cpu);
    } else {
      EXPECT_LE(RelativeError(mock, cpu), kNearTheCpu[precision]);
    }
    for (uint64_t seed = 1; seed < seeds + (exact ? 0 : 1); ++seed) {
      Machine::Get().Restart(seed);
      ExpectSameBits(RunCell(cell, /*on_mock=*/true), mock);
      EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty());
    }
  }
};

TEST_F(MockRanks, EveryPairOfValues) {
  const auto all = AllCells();
  const std::vector<size_t> chosen = PairwiseSelection(all);
  EXPECT_GE(chosen.size(), 20);
  for (const size_t i : chosen) Check({all[i]});
}

// The whole table in parts that take turns, so that each is a test of its own, with a time limit of its own, and what
// has passed need not run again.
constexpr size_t kParts = 20;
class MockParts : public MockRanks, public testing::WithParamInterface<size_t> {
 protected:
  // Returns whether the number-th cell is one of this part's.
  static bool IsMine(size_t number) { return number % kParts == GetParam(); }
  static void Tell(size_t number, size_t of, const MockCell& cell) {
    std::printf("%zu of %zu: %s%s\n", number + 1, of, cell.Name().c_str(),
                HasFailure() ? " (something has failed)" : "");
    std::fflush(stdout);
  }
};
INSTANTIATE_TEST_SUITE_P(, MockParts, testing::Range<size_t>(0, kParts));

// All cells of the table of strategies; what a run does besides goes through its values in turn.
TEST_P(MockParts, DISABLED_EveryCell) {
  const auto all = AllCells();
  constexpr size_t kMore = kAlgorithms.size() * 4;
  for (size_t number = 0; number < all.size() / kMore; ++number) {
    if (!IsMine(number)) continue;
    const MockCell cell{all[number * kMore + number * 7 % kMore]};
    Check(cell);
    Tell(number, all.size() / kMore, cell);
  }
}

// The cells with most streams, in 20 orders each.
TEST_P(MockParts, DISABLED_TwentyOrders) {
  constexpr size_t kBusy = 40;
  size_t number = 0;
  for (const auto& at : AllCells()) {
    const MockCell cell{at};
    const bool busy = at[ProductCell::kStrategy] >= kFullCell && at[ProductCell::kActivationOffload] == 1 &&
                      at[ProductCell::kPasses] == 1 && at[ProductCell::kWorld] == 3 && at[MockCell::kResumes] == 0 &&
                      at[MockCell::kProfiler] == 0;
    if (!busy || number == kBusy) continue;
    if (IsMine(number)) {
      Check(cell, 20);
      Tell(number, kBusy, cell);
    }
    ++number;
  }
  EXPECT_EQ(number, kBusy);
}

// A run with every kind of stream: FULL_SHARD, checkpointing, offloaded activations, two passes.
std::vector<RunResult> BusyRun() {
  return TrainOnMockRanks(2, [](int /*rank*/) {
    Case c;
    c.microbatch = 2;
    c.fsdp.strategy = ShardingStrategy::kFullShard;
    c.fsdp.forward_prefetch = true;
    TrainerOptions options = composer::OptionsOf(c);
    options.fsdp = c.fsdp;
    WrapBlocks(/*checkpoint=*/false, /*offload=*/true, *options.model);
    options.train.prefetch = {.num_workers = 1, .pin_memory = true};
    options.on_nan = OnNan::kContinue;
    options.max_duration = Time::Batches(2);
    return options;
  });
}

// Each wait of a stream and each recordStream of a run is left out in turn. What the mock does not report was not
// needed: for a wait, the clocks show whether other waits cover it.
TEST_F(MockRanks, WaitsThatAreLeftOutAreFound) {
  Machine::Get().Restart(0);
  for (const RunResult& result : BusyRun()) ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty());
  const int64_t waits = Machine::Get().CallsOf(ProgramCall::kStreamWait);
  const int64_t records = Machine::Get().CallsOf(ProgramCall::kRecordStream);
  int all_found = 0;
  for (const auto& [call, name, calls] : {std::tuple(ProgramCall::kStreamWait, "waits of a stream", waits),
                                          std::tuple(ProgramCall::kRecordStream, "calls of recordStream", records)}) {
    ASSERT_GT(calls, 0) << name;
    int planted = 0, found = 0, covered = 0;
    std::string missed;
    for (int64_t number = 0; number < calls; number += std::max<int64_t>(1, calls / 16)) {
      Machine::Get().Restart(static_cast<uint64_t>(number));
      Machine::Get().Forget(call, number);
      BusyRun();
      ++planted;
      const bool is_found = !Machine::Get().TakeFaults().empty();
      found += is_found ? 1 : 0;
      if (is_found) continue;
      const bool is_covered = call == ProgramCall::kStreamWait && Machine::Get().ForgottenWaitWasCovered();
      covered += is_covered ? 1 : 0;
      if (!is_covered) missed += " " + std::to_string(number);
    }
    std::printf("%s: %lld in the run, %d left out, %d found, %d covered by others; neither:%s\n", name,
                static_cast<long long>(calls), planted, found, covered, missed.c_str());
    EXPECT_GE(found, 4) << name;
    all_found += found;
  }
  EXPECT_GE(all_found, 14);
}

// The amaxes of all ranks are gathered and used without a fault, whatever is sharded and in whatever order streams run.
TEST_F(MockRanks, AmpFp8) {
  for (const size_t strategy : {kNoShardCell, kGradOpCell, kFullCell}) {
    SCOPED_TRACE(strategy);
    const auto run = [&](bool on_mock) {
      const auto options = [&](int /*rank*/) {
        ProductCell cell;
        cell.at[ProductCell::kStrategy] = strategy;
        TrainerOptions own = SmallRun();
        own.model = MakeGoldenGpt({.layers = 2, .heads = 2, .width = 16, .context = 8, .vocab = 20});
        own.train.dataset = MakeTensorRows(torch::arange(320).view({40, 8}).remainder(20),
                                           torch::arange(1, 321).view({40, 8}).remainder(20), 8);
        own.device_train_microbatch_size = 2;
        own.precision = Precision::kAmpFp8;
        own.fsdp = FsdpOf(cell);
        WrapBlocks(/*checkpoint=*/true, /*offload=*/false, *own.model);
        return own;
      };
      return on_mock ? TrainOnMockRanks(2, options) : TrainOnRanks(2, options);
    };
    Machine::Get().Restart(0);
    const std::vector<RunResult> first = run(true);
    ASSERT_TRUE(first[0].status.ok()) << first[0].status;
    for (uint64_t seed = 1; seed < 3; ++seed) {
      Machine::Get().Restart(seed);
      const std::vector<RunResult> again = run(true);
      ExpectSameBits(again[0], first[0]);
      ExpectSameBits(again[1], first[0]);
      EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty());
    }
    EXPECT_LE(RelativeError(first[0], run(false)[0]), kNearTheCpu[kBf16DefaultCell]);
  }
}

// Losses and metrics reach the ranks' sums on the devices; only the sums are read.
TEST_F(MockRanks, AStepOfTwoRanksWaitsOnce) {
  const std::map<std::string, std::function<void(TrainerOptions&)>> changes = {
      {"plain", [](TrainerOptions&) {}},
      {"no metrics", [](TrainerOptions& options) { options.train_metrics_interval = 0; }},
      {"microbatches", [](TrainerOptions& options) { options.device_train_microbatch_size = 2; }},
      {"amp_bf16", [](TrainerOptions& options) { options.precision = Precision::kAmpBf16; }},
      {"sharded", [](TrainerOptions& options) { options.fsdp.emplace(); }},
  };
  for (const auto& [name, change] : changes) {
    SCOPED_TRACE(name);
    Machine::Get().TakeWaits();
    std::mutex mutex;
    std::vector<std::string> waits;
    const std::vector<RunResult> results = TrainOnMockRanks(2, [&, &adjust = change](int /*rank*/) {
      TrainerOptions options = SmallRun();
      adjust(options);
      AddCallback(options, {composer::Event::kBatchEnd}, [&](State& state) {
        if (state.timestamp.batch == 10) return;
        const std::lock_guard<std::mutex> lock(mutex);
        for (std::string& wait : Machine::Get().TakeWaits()) {
          if (state.timestamp.batch > 3) waits.push_back(std::move(wait));
        }
      });
      return options;
    });
    for (const RunResult& result : results) ASSERT_TRUE(result.status.ok()) << result.status;
    // From batch 4 to 9 on both ranks; the ranks are not in step, so that those of one step of one rank more or less
    // are counted at either end. A second wait in each step would make 24.
    EXPECT_THAT(std::set<std::string>(waits.begin(), waits.end()), testing::ElementsAre("copy to the host"));
    EXPECT_NEAR(static_cast<double>(waits.size()), 6 * 2, 4);
  }
}

}  // namespace
}  // namespace composer::mock

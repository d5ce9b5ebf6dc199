// Each algorithm with every way to train: a cell either trains like one rank with the same precision and determinism,
// or is refused before its first step by a message that names the algorithm or the way.
//
// "Like" is: the same bits with determinism: elastic; 1e-4 of the losses in float32, whose sums have another order;
// 2e-2 in bfloat16 (2^-8 is the distance of two numbers) and what one rank's losses differ from its own in float32,
// since that is how much such a run amplifies rounding (weight_standardization: 6 % after 5 steps). Algorithms that
// draw, or use statistics of a rank's own samples, need not be like one rank: ranks are threads here and share torch's
// generator. They must train, with finite losses.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/job/algorithms/algorithm_cases.h"
#include "tests/support/pairwise.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

struct AlgorithmCell {
  enum Factor : size_t { kAlgorithm, kMesh, kPrecision, kPasses, kCheckpointing, kElastic, kCount };
  std::array<size_t, kCount> at{};
  size_t operator[](Factor factor) const { return at[factor]; }
};

enum MeshOfCell : size_t { kOneRank, kDdp, kFull, kHybrid, kTensor };
constexpr const char* kMeshNames[] = {"1 rank", "DDP, 2 ranks", "FULL_SHARD, 2 ranks", "HYBRID_SHARD, 2 x 2 ranks",
                                      "tensor parallel, 2 ranks"};
constexpr int kMeshRanks[] = {1, 2, 2, 4, 2};

std::string NameOf(const AlgorithmCell& cell) {
  return absl::StrCat(AlgorithmCases()[cell[AlgorithmCell::kAlgorithm]].name, ", ",
                      kMeshNames[cell[AlgorithmCell::kMesh]], cell[AlgorithmCell::kPrecision] == 1 ? ", amp_bf16" : "",
                      cell[AlgorithmCell::kPasses] == 1 ? ", 2 passes" : "",
                      cell[AlgorithmCell::kCheckpointing] == 1 ? ", activation_checkpointing" : "",
                      cell[AlgorithmCell::kElastic] == 1 ? ", elastic" : "");
}

const LayerPlan& PlanOfGpt() {
  static const auto& plan = *new LayerPlan{{"*.attn.qkv", ParallelStyle::kColwise},
                                           {"*.attn.proj", ParallelStyle::kRowwise},
                                           {"*.mlp.fc", ParallelStyle::kColwise},
                                           {"*.mlp.proj", ParallelStyle::kRowwise}};
  return plan;
}

// With determinism: elastic a microbatch is a leaf of the sum, so that one rank must have the leaves of the others: one
// sample each where each of 4 ranks makes two passes over its 2, else the 2 of a virtual shard.
bool HasLeavesOfOne(const AlgorithmCell& cell) {
  return cell[AlgorithmCell::kElastic] == 1 && cell[AlgorithmCell::kPasses] == 1 &&
         cell[AlgorithmCell::kMesh] == kHybrid;
}

TrainerOptions OptionsOf(const AlgorithmCell& cell, Workload workload) {
  const size_t mesh = cell[AlgorithmCell::kMesh];
  TrainerOptions options = CaseRun(workload, {AlgorithmCases()[cell[AlgorithmCell::kAlgorithm]]});
  if (cell[AlgorithmCell::kPrecision] == 1) options.precision = Precision::kAmpBf16;
  // Ranks that share their samples have all 8 of them.
  const int64_t ranks = mesh == kTensor ? 1 : kMeshRanks[mesh];
  if (cell[AlgorithmCell::kPasses] == 1) options.device_train_microbatch_size = 4 / ranks;
  if (cell[AlgorithmCell::kCheckpointing] == 1) options.activations.checkpoint.every = 1;
  if (cell[AlgorithmCell::kElastic] == 1) options.virtual_shards = 4;
  if (HasLeavesOfOne(cell)) options.device_train_microbatch_size = 1;
  if (mesh == kFull || mesh == kHybrid) options.fsdp.emplace();
  if (mesh == kHybrid) options.fsdp->data_parallel_replicate_degree = 2;
  if (mesh == kTensor) {
    options.tensor_parallel_degree = 2;
    options.layer_plan = PlanOfGpt();
  }
  return options;
}

// Runs cells; what several cells are compared with is run once.
class AlgorithmProduct {
 public:
  void Check(const AlgorithmCell& cell) {
    for (const Workload workload : {Workload::kPictures, Workload::kGpt}) {
      const AlgorithmCase& one = AlgorithmCases()[cell[AlgorithmCell::kAlgorithm]];
      if (!SuitsAlone(workload, one)) continue;
      if (workload == Workload::kPictures && cell[AlgorithmCell::kMesh] == kTensor) continue;  // no plan for its layers
      // What is computed again restores torch's generator, which the other threads use meanwhile.
      if (one.draws && cell[AlgorithmCell::kCheckpointing] == 1 && kMeshRanks[cell[AlgorithmCell::kMesh]] > 1) return;
      CheckOn(workload, one, cell);
      return;
    }
  }

  void Print() const {
    std::printf("| algorithm |");
    for (const char* mesh : kMeshNames) std::printf(" %s |", mesh);
    std::printf("\n|---|---|---|---|---|---|\n");
    for (const auto& [name, row] : rows_) {
      std::printf("| %s |", name.c_str());
      for (const Square& square : row) {
        std::printf(square.right + square.refused == 0 ? " -" : " %d", square.right);
        if (square.refused > 0) std::printf(", %d refused", square.refused);
        std::printf(" |");
      }
      std::printf("\n");
    }
    std::printf("%d cells, %d of them with the bits of one rank\n", cells_, same_bits_);
    for (const auto& [message, count] : refusals_) std::printf("  - %d x %s\n", count, message.c_str());
    std::fflush(stdout);
  }

 private:
  struct Square {
    int right = 0, refused = 0;
  };

  void CheckOn(Workload workload, const AlgorithmCase& one, const AlgorithmCell& cell) {
    SCOPED_TRACE(absl::StrCat(NameOf(cell), ", ", NameOf(workload)));
    Square& square = rows_[one.name][cell[AlgorithmCell::kMesh]];
    ++cells_;
    const std::vector<RunResult> results =
        TrainOnRanks(kMeshRanks[cell[AlgorithmCell::kMesh]], [&](int) { return OptionsOf(cell, workload); });
    const RunResult& result = results[0];
    if (!result.status.ok()) {
      ++square.refused;
      ExpectRefusal(one, result);
      return;
    }
    ++square.right;
    ASSERT_EQ(result.losses.size(), static_cast<size_t>(kCaseBatches));
    for (const double loss : result.losses) ASSERT_TRUE(std::isfinite(loss)) << loss;
    if (one.draws || !one.same_on_ranks) return;
    const bool bf16 = OptionsOf(cell, workload).precision == Precision::kAmpBf16;
    const RunResult& alone = OneRank(cell, workload, bf16);
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    if (result.losses == alone.losses) ++same_bits_;
    if (cell[AlgorithmCell::kElastic] == 1) EXPECT_EQ(result.losses, alone.losses);
    const RunResult& exact = OneRank(cell, workload, false);
    ASSERT_TRUE(exact.status.ok()) << exact.status;
    for (size_t i = 0; i < result.losses.size(); ++i) {
      const double rounding = bf16 ? 2e-2 + std::abs(exact.losses[i] / alone.losses[i] - 1) : 1e-4;
      EXPECT_NEAR(result.losses[i] / alone.losses[i], 1, rounding) << "step " << i;
    }
  }

  void ExpectRefusal(const AlgorithmCase& one, const RunResult& result) {
    const std::string message(result.status.message());
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_TRUE(result.losses.empty()) << "refused after it had begun: " << message;
    const auto names = [&](absl::string_view word) { return absl::StrContains(message, word); };
    EXPECT_TRUE(names(one.key) || names(MakeCase(one)->name()) || names("tensor_parallel_degree") ||
                names("tp.layer_plan") || names("activation_checkpointing") || names("determinism: elastic"))
        << message;
    ++refusals_[message];
  }

  // The same on one rank, in one pass but for leaves of one sample, and without recomputing.
  const RunResult& OneRank(const AlgorithmCell& cell, Workload workload, bool bf16) {
    AlgorithmCell one = cell;
    for (const auto factor : {AlgorithmCell::kMesh, AlgorithmCell::kPasses, AlgorithmCell::kCheckpointing})
      one.at[factor] = 0;
    const auto [place, is_new] = alone_.try_emplace({one.at, workload, HasLeavesOfOne(cell), bf16});
    if (is_new) {
      TrainerOptions options = OptionsOf(one, workload);
      if (HasLeavesOfOne(cell)) options.device_train_microbatch_size = 1;
      options.precision = bf16 ? Precision::kAmpBf16 : Precision::kFp32;
      place->second = Train(std::move(options));
    }
    return place->second;
  }

  std::map<std::tuple<std::array<size_t, AlgorithmCell::kCount>, Workload, bool, bool>, RunResult> alone_;
  std::map<std::string, std::array<Square, std::size(kMeshNames)>> rows_;
  std::map<std::string, int> refusals_;
  int cells_ = 0, same_bits_ = 0;
};

std::vector<AlgorithmCell> AllAlgorithmCells() {
  const size_t values[] = {AlgorithmCases().size(), std::size(kMeshNames), 2, 2, 2, 2};
  std::vector<AlgorithmCell> cells = {{}};
  for (size_t factor = 0; factor < AlgorithmCell::kCount; ++factor) {
    std::vector<AlgorithmCell> longer;
    for (const AlgorithmCell& cell : cells) {
      for (size_t value = 0; value < values[factor]; ++value) longer.push_back(cell), longer.back().at[factor] = value;
    }
    cells = longer;
  }
  return cells;
}

// Each algorithm once, and every pair of values of the other factors.
TEST(AlgorithmProduct, EachAlgorithmOnceIsLikeOneRank) {
  std::vector<std::array<size_t, AlgorithmCell::kCount - 1>> ways;
  for (const AlgorithmCell& cell : AllAlgorithmCells()) {
    if (cell[AlgorithmCell::kAlgorithm] == 0)
      ways.push_back({cell.at[1], cell.at[2], cell.at[3], cell.at[4], cell.at[5]});
  }
  const std::vector<size_t> chosen = PairwiseSelection(ways);
  AlgorithmProduct product;
  for (size_t i = 0; i < AlgorithmCases().size(); ++i) {
    const auto& way = ways[chosen[i % chosen.size()]];
    product.Check({{i, way[0], way[1], way[2], way[3], way[4]}});
  }
}

// Prints what docs/results/algorithm_pairs.md shows.
TEST(AlgorithmProduct, DISABLED_EveryCellIsLikeOneRankOrRefused) {
  AlgorithmProduct product;
  std::vector<AlgorithmCell> cells = AllAlgorithmCells();
  std::shuffle(cells.begin(), cells.end(), std::mt19937(1));  // so that the first of them are a fair part
  for (size_t i = 0; i < cells.size(); ++i) {
    product.Check(cells[i]);
    if (i % 500 == 0) product.Print();
  }
  product.Print();
}

}  // namespace
}  // namespace composer

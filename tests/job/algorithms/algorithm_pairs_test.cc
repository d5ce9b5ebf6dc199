// Every pair of algorithms on a model that suits both: it trains and, stopped and resumed, ends with the same bits, or
// it is refused before the first step by a message that names one of the two, or warned of.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "job/job_algorithms.h"
#include "tests/job/algorithms/algorithm_cases.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using CasePair = std::pair<AlgorithmCase, AlgorithmCase>;

// Saves in the middle of the run and at its end.
RunResult TrainPair(Workload workload, const std::vector<AlgorithmCase>& algorithms, const std::string& folder) {
  TrainerOptions options = CaseRun(workload, algorithms, folder);
  options.save.save_interval = Time::Batches(kCaseBatches / 2 + 1);
  return Train(std::move(options));
}

std::optional<Workload> WorkloadOf(const CasePair& pair) {
  for (const Workload workload : {Workload::kPictures, Workload::kGpt}) {
    if (SuitsAlone(workload, pair.first) && SuitsAlone(workload, pair.second)) return workload;
  }
  return std::nullopt;
}

// "works", "no model", or "warned: " or "refused: " and why. Expectations fail for anything else.
std::string OutcomeOf(const CasePair& pair) {
  SCOPED_TRACE(pair.first.name + " and " + pair.second.name);
  const std::optional<Workload> workload = WorkloadOf(pair);
  if (!workload) return "no model";
  const std::vector<AlgorithmCase> both = {pair.first, pair.second};
  const TempDir folder;
  std::string warned;
  const RunResult expected = [&] {
    const Warnings warnings;
    RunResult result = TrainPair(*workload, both, folder.path());
    warned = warnings.text;
    return result;
  }();
  if (!expected.status.ok()) {
    const std::string message(expected.status.message());
    EXPECT_EQ(expected.status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_TRUE(expected.losses.empty()) << "refused after it had begun: " << message;
    const auto names = [&](const AlgorithmCase& one) {
      return absl::StrContains(message, one.key) || absl::StrContains(message, MakeCase(one)->name());
    };
    EXPECT_TRUE(names(pair.first) || names(pair.second)) << message;
    return "refused: " + message;
  }
  EXPECT_EQ(expected.losses.size(), static_cast<size_t>(kCaseBatches));
  for (const double loss : expected.losses) EXPECT_TRUE(std::isfinite(loss)) << loss;
  // As if it had been killed before its last save.
  std::filesystem::remove_all(folder.Path(Checkpoints(folder.path()).back()));
  const RunResult resumed = TrainPair(*workload, both, folder.path());
  EXPECT_TRUE(resumed.status.ok()) << resumed.status;
  EXPECT_EQ(resumed.losses.size(), static_cast<size_t>(kCaseBatches - kCaseBatches / 2 - 1));
  EXPECT_EQ(LargestDifference(resumed, expected), 0) << NameOf(*workload);
  return warned.empty() ? "works" : "warned: " + warned;
}

std::vector<CasePair> AllPairs() {
  std::vector<CasePair> pairs;
  const std::vector<AlgorithmCase>& cases = AlgorithmCases();
  for (size_t i = 0; i < cases.size(); ++i) {
    for (size_t j = i + 1; j < cases.size(); ++j) {
      if (cases[i].key != cases[j].key) pairs.emplace_back(cases[i], cases[j]);
    }
  }
  return pairs;
}

TEST(AlgorithmPairs, EveryAlgorithmHasACase) {
  std::set<std::string> keys;
  for (const AlgorithmCase& one : AlgorithmCases()) {
    keys.insert(one.key);
    EXPECT_TRUE(SuitsAlone(Workload::kPictures, one) || SuitsAlone(Workload::kGpt, one)) << one.name;
  }
  for (const std::string& name : AlgorithmNames())
    EXPECT_EQ(keys.contains(name), name != "fused_layernorm") << name << ": the other name of low_precision_layernorm";
}

// Neighbours in the table, so that each is in two pairs; DISABLED_AllPairs has all.
TEST(AlgorithmPairs, NeighboursWorkAndResume) {
  const std::vector<AlgorithmCase>& cases = AlgorithmCases();
  int works = 0;
  for (size_t i = 0; i + 1 < cases.size(); i += 2) works += OutcomeOf({cases[i], cases[i + 1]}) == "works";
  EXPECT_GT(works, 8);
}

// Those that were once wrong. LibTorch ends with a segmentation fault in a GroupNorm behind frozen layers with the
// channels innermost; SelectiveBackprop runs the model before BATCH_START; all that LoRA trains may be left out at
// once.
TEST(AlgorithmPairs, ThatWereWrongWorkOrAreRefused) {
  const auto outcome = [](const char* first, const char* second) {
    const auto named = [](const char* name) {
      const std::vector<AlgorithmCase>& cases = AlgorithmCases();
      return *std::find_if(cases.begin(), cases.end(), [&](const AlgorithmCase& one) { return one.name == name; });
    };
    return OutcomeOf({named(first), named(second)});
  };
  EXPECT_EQ(outcome("channels_last", "layer_freezing"), "works");
  EXPECT_EQ(outcome("gyro_dropout", "selective_backprop"), "works");
  EXPECT_EQ(outcome("progressive_layer_dropping", "selective_backprop"), "works");
  EXPECT_EQ(outcome("lora", "progressive_layer_dropping"), "works");
  EXPECT_TRUE(absl::StrContains(outcome("label_smoothing", "no_op_model"),
                                "label_smoothing: logits [8] have no dimension of classes"));
  EXPECT_TRUE(absl::StrContains(outcome("no_op_model", "selective_backprop"), "selective_backprop: the model"));
}

// Prints what docs/results/algorithm_pairs.md shows.
TEST(AlgorithmPairs, DISABLED_AllPairs) {
  std::map<std::string, int> counts;
  for (const CasePair& pair : AllPairs()) {
    const std::string outcome = OutcomeOf(pair);
    ++counts[outcome.substr(0, outcome.find(':'))];
    std::printf("| %s | %s | %s |\n", pair.first.name.c_str(), pair.second.name.c_str(), outcome.c_str());
    std::fflush(stdout);  // it takes minutes
  }
  for (const auto& [outcome, count] : counts) std::printf("%s: %d pairs\n", outcome.c_str(), count);
}

}  // namespace
}  // namespace composer

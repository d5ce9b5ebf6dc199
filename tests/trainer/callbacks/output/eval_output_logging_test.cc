// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/eval_output_logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/support/spawn_ranks.h"
#include "tests/support/threads_communicator.h"
#include "trainer/collectives/object_collectives.h"
#include "trainer/core/state.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {
namespace {

using nlohmann::json;

// Runs one evaluation of these microbatches and returns its table.
json TableOf(EvalOutputLogging& callback, State& state, std::vector<std::pair<Batch, at::Tensor>> microbatches) {
  MetricHistory history;
  Logger logger;
  logger.AddDestination(std::make_unique<InMemoryLogger>(&history));
  state.evaluation.label = "eval";
  EXPECT_TRUE(callback.Run(Event::kEvalStart, state, logger).ok());
  for (auto& [batch, outputs] : microbatches) {
    state.batch = batch;
    state.outputs = outputs;
    const absl::Status status = callback.Run(Event::kEvalAfterForward, state, logger);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(callback.Run(Event::kEvalEnd, state, logger).ok());
  const auto table = history.tables.find("eval_outputs/eval");
  return table == history.tables.end() ? json() : json::parse(table->second);
}

// Samples whose class is their number modulo 3; the model answers 1 always.
std::pair<Batch, at::Tensor> Classes(const std::vector<int64_t>& samples) {
  Batch batch;
  batch.num_samples = static_cast<int64_t>(samples.size());
  batch.sample_ids = samples;
  batch.inputs = torch::zeros({batch.num_samples, 4});
  batch.targets = torch::tensor(samples) % 3;
  return {batch, torch::tensor({0.0F, 2.0F, 1.0F}).expand({batch.num_samples, 3})};
}

TEST(EvalOutputLogging, ClassesAreNumbersInTheOrderOfSamples) {
  EvalOutputLogging callback({.num_samples = 3}, nullptr);
  State state;
  const json table = TableOf(callback, state, {Classes({4, 0}), Classes({2, 1})});
  EXPECT_EQ(table["columns"], json({"sample", "input", "target", "output", "correct"}));
  EXPECT_EQ(table["data"],
            json::parse(R"([["0","","0","1","false"],["2","","2","1","false"],["4","","1","1","true"]])"))
      << "of each rank the first that it meets";
  EXPECT_EQ(TableOf(callback, state, {Classes({7})})["data"].size(), 1u) << "the evaluation before is forgotten";
  EXPECT_TRUE(TableOf(callback, state, {}).is_null());
}

TEST(EvalOutputLogging, RanksGiveTheTableOfOne) {
  State alone;
  EvalOutputLogging one({.num_samples = 5}, nullptr);
  const json wanted = TableOf(one, alone, {Classes({0, 1, 2, 3}), Classes({4, 5, 6, 7})});
  for (const int ranks : {2, 3}) {
    ThreadsExchange exchange(ranks);
    std::vector<json> tables(static_cast<size_t>(ranks));
    SpawnRanks(ranks, [&](int rank) {
      ThreadsCommunicator communicator(exchange, rank);
      EvalOutputLogging callback({.num_samples = 5}, &communicator);
      State state;
      state.identity.rank = rank;
      std::vector<std::pair<Batch, at::Tensor>> own;
      for (int64_t sample = rank; sample < 8; sample += ranks) own.push_back(Classes({sample}));
      tables[static_cast<size_t>(rank)] = TableOf(callback, state, own);
    });
    EXPECT_EQ(tables[0], wanted) << ranks;
    EXPECT_TRUE(tables[1].is_null());
  }
}

TEST(EvalOutputLogging, TextsAreThoseOfTheTokensThatCount) {
  EvalOutputLogging callback({.num_samples = 9, .log_tokens = true}, nullptr);
  State state;
  state.tokenizer = std::make_shared<ByteTokenizer>();
  Batch batch;
  batch.num_samples = 1;
  batch.sample_ids = {7};
  batch.inputs = torch::tensor({{104, 105, 33, 0}});
  batch.extra["attention_mask"] = torch::tensor({{1, 1, 1, 0}});
  batch.targets = torch::tensor({{-100, 33, 63, -100}});
  at::Tensor logits = torch::zeros({1, 4, 256});
  for (const auto& [place, token] : {std::pair(1, 33), std::pair(2, 46)}) logits[0][place][token] = 1;
  EXPECT_EQ(TableOf(callback, state, {{batch, logits}})["data"],
            json::parse(R"([["7","hi!","104 105 33","!?","!.","false"]])"));
  batch.targets = at::Tensor();
  batch.extra["icl"] = torch::tensor({{1, 3, 0, 0, 1, 0}});  // the choice is "i!"
  logits[0][0][105] = 1;
  logits[0][1][33] = 1;
  EXPECT_EQ(TableOf(callback, state, {{batch, logits}})["data"],
            json::parse(R"([["7","hi!","104 105 33","i!","i!","true"]])"));
  state.tokenizer = nullptr;
  EXPECT_EQ(TableOf(callback, state, {{batch, logits}})["data"][0][1], "104 105 33");
}

TEST(EvalOutputLogging, OtherOutputsAreNumbersOrNothing) {
  EvalOutputLogging callback({}, nullptr);
  State state;
  Batch batch;
  batch.num_samples = 2;
  batch.sample_ids = {0, 1};
  batch.inputs = torch::zeros({2, 3});
  batch.targets = torch::zeros({2, 1});
  const json table = TableOf(callback, state, {{batch, torch::tensor({{0.5F}, {-2.0F}})}});
  EXPECT_EQ(table["data"], json::parse(R"([["0","","","0.5",""],["1","","","-2",""]])"));
  EXPECT_EQ(TableOf(callback, state, {{batch, torch::zeros({7})}})["data"][0], json({"0", "", "", "", ""}));
}

TEST(ObjectCollectives, BytesOfAnyLengthReachAllRanks) {
  for (const int ranks : {1, 2, 5}) {
    ThreadsExchange exchange(ranks);
    SpawnRanks(ranks, [&](int rank) {
      ThreadsCommunicator communicator(exchange, rank);
      const auto of = [](int who) {
        return std::string(static_cast<size_t>(who) * 1000, static_cast<char>('a' + who));
      };
      const std::vector<std::string> all = AllGatherBytes(of(rank), communicator);
      ASSERT_EQ(all.size(), static_cast<size_t>(ranks));
      for (int other = 0; other < ranks; ++other) EXPECT_EQ(all[static_cast<size_t>(other)], of(other));
      for (int root = 0; root < ranks; ++root) EXPECT_EQ(BroadcastBytes(of(rank), root, communicator), of(root));
      EXPECT_EQ(AllGatherBytes("", communicator), std::vector<std::string>(static_cast<size_t>(ranks)));
    });
  }
}

TEST(ObjectCollectives, TheFirstRankOfANodeGoesFirstAlsoWhenItThrows) {
  constexpr int kRanks = 4;
  for (const bool throws : {false, true}) {
    ThreadsExchange exchange(kRanks);
    std::atomic<int> firsts = 0, calls = 0;
    const auto run = [&] {
      SpawnRanks(kRanks, [&](int rank) {
        ThreadsCommunicator communicator(exchange, rank);
        const int local_rank = rank % 2;  // two nodes of two
        LocalRankZeroFirst(local_rank, communicator, [&] {
          ++calls;
          if (local_rank == 0) {
            ++firsts;
            if (throws && rank == 0) throw std::runtime_error("no network");
          } else {
            EXPECT_EQ(firsts, 2);
          }
        });
      });
    };
    if (throws) {
      EXPECT_THROW(run(), std::runtime_error);
    } else {
      run();
    }
    EXPECT_EQ(calls, kRanks);
  }
}

}  // namespace
}  // namespace composer

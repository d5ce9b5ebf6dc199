// Compares the events of a run with those of mosaicml 0.32.1 (tests/golden/events.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using Json = nlohmann::json;

const Json& EventsGolden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/events.json").value()));
  return *golden;
}

// What a callback that listens to everything saw, in the golden file's layout.
struct Seen {
  Json sequence = Json::array(), times = Json::array(), evaluated_at = Json::array(), iterations = Json::array();
  std::map<std::string, int> counts;

  absl::Status Add(Event event, const State& state) {
    const Timestamp& now = state.timestamp;
    sequence.push_back(static_cast<int>(event));
    times.push_back({now.epoch, now.batch, now.sample, now.batch_in_epoch});
    if (event == Event::kEvalBeforeAll) evaluated_at.push_back({now.epoch, now.batch});
    if (event == Event::kIterationEnd) iterations.push_back({now.iteration, now.epoch, now.batch});
    ++counts[std::string(EventName(event))];
    return absl::OkStatus();
  }
};

Time TimeOf(const Json& settings, const char* key, const char* fallback) {
  return ParseTime(settings.value(key, std::string(fallback))).value();
}

// A rank's batches have 4 samples in microbatches of 2, 5 batches per epoch. An evaluator has `eval_batches` of
// `eval_batch`.
struct Sizes {
  int64_t rank_batch = 4, microbatch = 2, eval_batch = 4, eval_batches = 2;
};

TrainerOptions GoldenRun(const Json& run, const Sizes& sizes, const std::string& folder, int world_size, Seen* seen) {
  const Json& settings = run["settings"];
  TrainerOptions options = SmallRun();
  options.train.global_train_batch_size = sizes.rank_batch * world_size;
  options.train.dataset = MakeRows(5 * sizes.rank_batch * world_size, 8, 4, /*tokens_per_sample=*/1);
  options.device_train_microbatch_size = sizes.microbatch;
  options.max_duration = TimeOf(settings, "max_duration", "2ep");
  options.iteration_length = TimeOf(settings, "iteration_length", "0ep");
  if (settings.contains("save_interval")) options.save.save_folder = folder;
  options.save.save_interval = TimeOf(settings, "save_interval", "1ep");
  for (int i = 0; i < run["evaluators"].get<int>(); ++i) {
    EvaluatorOptions evaluator;
    evaluator.label = absl::StrCat("eval", i);
    evaluator.dataset = MakeRows(sizes.eval_batch * sizes.eval_batches * world_size);
    evaluator.batch_size = sizes.eval_batch;
    evaluator.eval_interval = TimeOf(settings, "eval_interval", "1ep");
    options.evaluators.push_back(std::move(evaluator));
  }
  options.callbacks.push_back(std::make_unique<OnEvent>(
      EventSet::All(), [seen](Event event, State& state) { return seen->Add(event, state); }));
  return options;
}

void ExpectAsGolden(const Json& run, const Seen& seen, const std::string& folder) {
  EXPECT_EQ(seen.evaluated_at, run["evaluated_at"]);
  const Json counts = run.value("counts", Json::object());
  for (const auto& [event, count] : counts.items()) {
    const auto it = seen.counts.find(event);
    EXPECT_EQ(it == seen.counts.end() ? 0 : it->second, count.get<int>()) << event;
  }
  if (run.contains("sequence")) EXPECT_EQ(seen.sequence, run["sequence"]);
  if (run.contains("iterations")) EXPECT_EQ(seen.iterations, run["iterations"]);
  if (run.contains("times")) EXPECT_EQ(seen.times, run["times"]);
  if (!run["settings"].contains("save_interval")) return;
  Json saved = Json::array();
  for (const std::string& name : Checkpoints(folder)) saved.push_back(absl::StrCat(name, ".pt"));
  // Composer makes a save that is due after a share of the run and at the end of an epoch before that epoch's end, so
  // that an EMA in epochs lacks its last update.
  if (run["name"] == "save_1dur") {
    EXPECT_EQ(run["saved"], Json::parse(R"(["ep1-ba10.pt"])"));
    EXPECT_EQ(saved, Json::parse(R"(["ep2-ba10.pt"])"));
  } else {
    EXPECT_EQ(saved, run["saved"]);
  }
}

// Runs it on this many ranks, each of which must see what the golden file says.
void ExpectOnRanks(const Json& run, const Sizes& sizes, int world_size) {
  SCOPED_TRACE(absl::StrCat(run["name"].get<std::string>(), " on ", world_size));
  const TempDir folder;
  std::vector<Seen> seen(static_cast<size_t>(world_size));
  const auto results = TrainOnRanks(world_size, [&](int rank) {
    return GoldenRun(run, sizes, folder.path(), world_size, &seen[static_cast<size_t>(rank)]);
  });
  for (size_t rank = 0; rank < seen.size(); ++rank) {
    ASSERT_TRUE(results[rank].status.ok()) << results[rank].status;
    ExpectAsGolden(run, seen[rank], folder.path());
  }
}

TEST(Events, AreComposersInOrderAndCount) {
  ASSERT_EQ(EventsGolden()["runs"].size(), 27u);
  for (const Json& run : EventsGolden()["runs"]) ExpectOnRanks(run, {}, 1);
}

TEST(Events, OfOneRanksBatchesAreTheSameOnEachOfTwo) {
  for (const Json& run : EventsGolden()["runs"])
    ExpectOnRanks(run, {.rank_batch = 2, .microbatch = 1, .eval_batch = 2}, 2);
}

// The table of mosaicml's tests/test_events.py, on 1 and on 2 ranks, with two evaluators.
TEST(Events, AreComposersOnOneAndTwoRanks) {
  ASSERT_EQ(EventsGolden()["table"].size(), 4u);
  for (const Json& run : EventsGolden()["table"])
    ExpectOnRanks(run, {.eval_batch = 8, .eval_batches = 5}, run["world"].get<int>());
}

TEST(Events, OfIterationsOfEpochsAreComposers) {
  int runs = 0;
  for (const Json& run : EventsGolden()["iterations"]) {
    if (TimeOf(run["settings"], "iteration_length", "").unit() != TimeUnit::kEpoch) continue;
    ExpectOnRanks(run, {}, 1);
    ExpectOnRanks(run, {.rank_batch = 2, .microbatch = 1, .eval_batch = 2}, 2);
    ++runs;
  }
  EXPECT_EQ(runs, 3);
}

bool IsOfIterations(const Json& event) {
  const absl::string_view name = EventName(static_cast<Event>(event.get<int>()));
  return name == "iteration_start" || name == "iteration_end" || name == "iteration_checkpoint";
}

// Composer's iteration of tokens begins its epoch anew, so an epoch longer than it never ends: its first batches are
// trained on again and again. Ours ends after the same batches, and the epochs continue as if there were no iterations.
TEST(Events, OfIterationsOfTokensEndWhereComposersDo) {
  int runs = 0;
  for (Json run : EventsGolden()["iterations"]) {
    if (TimeOf(run["settings"], "iteration_length", "").unit() != TimeUnit::kToken) continue;
    SCOPED_TRACE(run["name"].get<std::string>());
    Seen with, without;
    ASSERT_TRUE(Train(GoldenRun(run, {}, "", 1, &with)).status.ok());
    ASSERT_EQ(with.iterations.size(), run["iterations"].size());
    for (size_t i = 0; i < with.iterations.size(); ++i) {
      EXPECT_EQ(with.iterations[i][0], run["iterations"][i][0]);
      EXPECT_EQ(with.iterations[i][2], run["iterations"][i][2]) << "after another batch";
    }
    for (const char* event : {"iteration_start", "iteration_end", "iteration_checkpoint"})
      EXPECT_EQ(with.counts[event], run["counts"][event].get<int>()) << event;
    if (run["name"] == "eval_1iter") continue;  // it evaluates at the iterations
    for (const char* key : {"iteration_length", "save_interval"}) run["settings"].erase(key);
    ASSERT_TRUE(Train(GoldenRun(run, {}, "", 1, &without)).status.ok());
    for (Json* sequence : {&with.sequence, &without.sequence})
      sequence->erase(std::remove_if(sequence->begin(), sequence->end(), IsOfIterations), sequence->end());
    EXPECT_EQ(with.sequence, without.sequence);
    ++runs;
  }
  EXPECT_EQ(runs, 3);
}

// Composer accepts an eval_interval in iterations and then evaluates only at the end. Ours evaluates at each interval.
TEST(Events, OfAnEvaluationAtEachIterationDifferFromComposers) {
  const Json& runs = EventsGolden()["iterations"];
  const auto run = std::find_if(runs.begin(), runs.end(), [](const Json& r) { return r["name"] == "eval_1iter"; });
  ASSERT_NE(run, runs.end());
  EXPECT_EQ((*run)["evaluated_at"], Json({{0, 8}}));
  Seen seen;
  ASSERT_TRUE(Train(GoldenRun(*run, {}, "", 1, &seen)).status.ok());
  EXPECT_EQ(seen.evaluated_at, Json({{0, 3}, {1, 6}, {1, 8}}));
}

TEST(Events, StandaloneEvaluationHasItsOwnPair) {
  Seen seen;
  TrainerOptions options = GoldenRun(EventsGolden()["runs"][1], {}, "", 1, &seen);
  auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  seen = {};
  ASSERT_TRUE((*trainer)->Eval().ok());
  std::vector<std::string> names;
  for (const Json& event : seen.sequence) names.emplace_back(EventName(static_cast<Event>(event.get<int>())));
  EXPECT_EQ(names,
            (std::vector<std::string>{"eval_standalone_start", "eval_start", "eval_batch_start", "eval_before_forward",
                                      "eval_after_forward", "eval_batch_end", "eval_batch_start", "eval_before_forward",
                                      "eval_after_forward", "eval_batch_end", "eval_end", "eval_standalone_end"}));
}

TEST(Events, NamesAreComposers) {
  const Json& names = EventsGolden()["all_events"];
  ASSERT_EQ(names.size(), static_cast<size_t>(kNumEvents));
  for (int i = 0; i < kNumEvents; ++i)
    EXPECT_EQ(EventName(static_cast<Event>(i)), names[static_cast<size_t>(i)].get<std::string>());
}

}  // namespace
}  // namespace composer

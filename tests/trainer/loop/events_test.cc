// The events of a run beside those of mosaicml 0.32.1 (tests/golden/events.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using Json = nlohmann::json;

const Json& Golden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/events.json").value()));
  return *golden;
}

// What a callback that listens to everything saw, in the golden file's layout.
struct Seen {
  Json sequence = Json::array(), times = Json::array(), evaluated_at = Json::array();
  std::map<std::string, int> counts;

  absl::Status Add(Event event, const State& state) {
    const Timestamp& now = state.timestamp;
    const std::string name(EventName(event));
    sequence.push_back(name);
    times.push_back({now.epoch, now.batch, now.sample, now.batch_in_epoch});
    if (event == Event::kEvalBeforeAll) evaluated_at.push_back({now.epoch, now.batch});
    ++counts[name];
    return absl::OkStatus();
  }
};

Time TimeOf(const Json& settings, const char* key, const char* fallback) {
  return ParseTime(settings.value(key, std::string(fallback))).value();
}

// 5 batches of 4 samples an epoch, 2 microbatches a rank; an evaluator of 2 batches of 4.
TrainerOptions GoldenRun(const Json& run, const std::string& folder, int world_size, Seen* seen) {
  const Json& settings = run["settings"];
  TrainerOptions options = SmallRun();
  options.train.dataset = MakeRows(20);
  options.train.global_train_batch_size = 4;
  options.device_train_microbatch_size = 2 / world_size;
  options.max_duration = TimeOf(settings, "max_duration", "2ep");
  if (settings.contains("save_interval")) options.save.save_folder = folder;
  options.save.save_interval = TimeOf(settings, "save_interval", "1ep");
  if (run["evaluator"]) {
    EvaluatorOptions evaluator;
    evaluator.dataset = MakeRows(8);
    evaluator.batch_size = 4 / world_size;
    evaluator.eval_interval = TimeOf(settings, "eval_interval", "1ep");
    options.evaluators.push_back(std::move(evaluator));
  }
  options.callbacks.push_back(std::make_unique<OnEvent>(
      EventSet::All(), [seen](Event event, State& state) { return seen->Add(event, state); }));
  return options;
}

void ExpectAsGolden(const Json& run, const Seen& seen, const std::string& folder) {
  SCOPED_TRACE(run["name"].get<std::string>());
  EXPECT_EQ(seen.evaluated_at, run["evaluated_at"]);
  const Json counts = run.value("counts", Json::object());
  for (const auto& [event, count] : counts.items()) {
    const auto it = seen.counts.find(event);
    EXPECT_EQ(it == seen.counts.end() ? 0 : it->second, count.get<int>()) << event;
  }
  if (run.contains("sequence")) {
    EXPECT_EQ(seen.sequence, run["sequence"]);
    EXPECT_EQ(seen.times, run["times"]);
  }
  if (!run["settings"].contains("save_interval")) return;
  Json saved = Json::array();
  for (const std::string& name : Checkpoints(folder)) saved.push_back(absl::StrCat(name, ".pt"));
  EXPECT_EQ(saved, run["saved"]);
}

TEST(Events, AreComposersInOrderAndCount) {
  ASSERT_EQ(Golden()["runs"].size(), 27u);
  for (const Json& run : Golden()["runs"]) {
    const TempDir folder;
    Seen seen;
    const RunResult result = Train(GoldenRun(run, folder.path(), 1, &seen));
    ASSERT_TRUE(result.status.ok()) << run["name"] << ": " << result.status;
    ExpectAsGolden(run, seen, folder.path());
  }
}

TEST(Events, AreTheSameOnEachOfTwoRanks) {
  for (const Json& run : Golden()["runs"]) {
    const TempDir folder;
    Seen seen[2];
    const auto results = TrainOnRanks(2, [&](int rank) { return GoldenRun(run, folder.path(), 2, &seen[rank]); });
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(results[static_cast<size_t>(rank)].status.ok()) << run["name"];
      ExpectAsGolden(run, seen[rank], folder.path());
    }
  }
}

TEST(Events, StandaloneEvaluationHasItsOwnPair) {
  Seen seen;
  TrainerOptions options = GoldenRun(Golden()["runs"][1], "", 1, &seen);
  auto trainer = Trainer::Create(std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  seen = {};
  ASSERT_TRUE((*trainer)->Eval().ok());
  EXPECT_EQ(seen.sequence, Json({"eval_standalone_start", "eval_start", "eval_batch_start", "eval_before_forward",
                                 "eval_after_forward", "eval_batch_end", "eval_batch_start", "eval_before_forward",
                                 "eval_after_forward", "eval_batch_end", "eval_end", "eval_standalone_end"}));
}

TEST(Events, NamesAreComposers) {
  const Json& names = Golden()["all_events"];
  ASSERT_EQ(names.size(), static_cast<size_t>(kNumEvents));
  for (int i = 0; i < kNumEvents; ++i) EXPECT_EQ(EventName(static_cast<Event>(i)), names[static_cast<size_t>(i)]);
}

}  // namespace
}  // namespace composer

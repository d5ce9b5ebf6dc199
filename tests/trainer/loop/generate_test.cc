// Tests text generation from a language model on one rank, and the callback that logs it in training.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "tests/trainer/loop/golden_gpt.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/core/communicator.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/text_ends.h"
#include "trainer/models/language_model.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Generation : public testing::Test {
 protected:
  Generation() {
    at::set_num_threads(1);  // waiting for threads would dominate such small products
    state_.model = MakeGoldenGpt(golden_.options);
  }
  TokenLists Generate(const TokenLists& prompts) {
    LocalCommunicator alone;
    return GenerateTokens(prompts, options_, state_, alone);
  }

  GoldenGeneration golden_ = ReadGoldenGeneration();
  State state_;
  GenerateOptions options_;
};

TEST_F(Generation, GreedyTokensAreHuggingFacesWithTheCacheAndWithout) {
  for (const bool cache : {true, false}) {
    for (const int64_t batch : {0, 1, 2, 3}) {
      options_.use_cache = cache;
      options_.batch_size = batch;
      options_.eos_token_id = {};
      EXPECT_EQ(Generate(golden_.prompts), golden_.greedy) << cache << " " << batch;
      options_.eos_token_id = {golden_.eos};
      EXPECT_EQ(Generate(golden_.prompts), golden_.greedy_eos) << cache << " " << batch;
    }
  }
}

TEST_F(Generation, LogitsAreHuggingFaces) {
  const torch::NoGradGuard no_grad;
  CausalDecoder& decoder = **DecoderOf(*state_.model);
  for (size_t i = 0; i < golden_.prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(golden_.prompts[i].size());
    const at::Tensor tokens = torch::tensor(golden_.prompts[i], at::kLong).unsqueeze(0);
    const auto cache = decoder.NewCache(1, length);
    const at::Tensor logits = decoder.NextLogits(tokens, {length}, cache.get())[0];
    const at::Tensor expected = torch::tensor(golden_.logits[i]);
    EXPECT_LT((logits - expected).abs().max().item<double>(), 1e-4) << i;
  }
}

TEST_F(Generation, ARowDoesNotDependOnItsNeighbours) {
  for (const bool sample : {false, true}) {
    options_.sampling = {.do_sample = sample, .temperature = 1.5, .top_p = 0.95, .seed = 3};
    const TokenLists together = Generate(golden_.prompts);
    TokenLists changed = golden_.prompts;
    changed[1] = {44};
    changed[4] = {1, 2, 3};
    const TokenLists others = Generate(changed);
    for (const size_t row : {0, 2, 3}) EXPECT_EQ(others[row], together[row]) << sample << " " << row;
    options_.batch_size = 2;
    EXPECT_EQ(Generate(golden_.prompts), together);
    options_.batch_size = 0;
    options_.use_cache = false;
    EXPECT_EQ(Generate(golden_.prompts), together);
    options_.use_cache = true;
  }
}

TEST_F(Generation, SamplesAreOfTheSeedAndOfThePromptsNumber) {
  options_.sampling = {.do_sample = true, .seed = 5};
  const TokenLists prompts = {{7, 40}, {7, 40}};
  const TokenLists first = Generate(prompts);
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(Generate(prompts), first);
  options_.sampling.seed = 6;
  EXPECT_NE(Generate(prompts), first);
  options_.sampling.top_k = 1;  // the likeliest, whatever the random number
  const TokenLists greedy = Generate(prompts);
  EXPECT_EQ(greedy[0], golden_.greedy[3]);
  EXPECT_EQ(greedy[1], golden_.greedy[3]);
}

TEST_F(Generation, TheModelIsAsBeforeAndTorchsGeneratorIsNotRead) {
  options_.sampling = {.do_sample = true};
  state_.model->train();
  const auto before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  Generate(golden_.prompts);
  EXPECT_TRUE(state_.model->is_training());
  EXPECT_TRUE(torch::equal(at::globalContext().defaultGenerator(at::kCPU).get_state(), before));
  state_.model->eval();
  Generate(golden_.prompts);
  EXPECT_FALSE(state_.model->is_training());
  for (const at::Tensor& param : state_.model->parameters()) EXPECT_FALSE(param.grad().defined());
}

TEST_F(Generation, PenaltiesLengthsAndBeamsGiveTransformersTokens) {
  ASSERT_THAT(golden_.controlled, SizeIs(16));
  for (size_t row = 0; row < golden_.controlled.size(); ++row) {
    for (const bool cache : {true, false}) {
      for (const int64_t batch : {0, 2}) {
        options_ = golden_.controlled[row].options;
        options_.use_cache = cache;
        options_.batch_size = batch;
        EXPECT_EQ(Generate(golden_.prompts), golden_.controlled[row].tokens) << row << " " << cache << " " << batch;
      }
    }
  }
}

TEST_F(Generation, AStopStringEndsTheTextAndIsKept) {
  LocalCommunicator alone;
  const std::string whole = TextOf(golden_.greedy[1]);
  for (const size_t length : {1, 2, 3}) {
    const std::string stop = whole.substr(4, length);
    options_.stop_strings = {"\x7f", stop};
    const std::string expected = whole.substr(0, whole.find(stop) + length);
    EXPECT_EQ(GenerateTexts(TextsOf(golden_.prompts), options_, state_, alone)[1], expected);
    options_.beams.num_beams = 2;
    for (const std::string& text : GenerateTexts(TextsOf(golden_.prompts), options_, state_, alone))
      EXPECT_TRUE(text.size() == 20 || text.ends_with(stop)) << length;
    options_.beams.num_beams = 1;
  }
}

TEST_F(Generation, StreamsTheTextsOneAfterTheOther) {
  LocalCommunicator alone;
  options_.eos_token_id = {golden_.eos};
  const std::vector<std::string> prompts = TextsOf(golden_.prompts);
  const std::vector<std::string> expected = GenerateTexts(prompts, options_, state_, alone);
  std::vector<std::string> streamed(prompts.size());
  size_t pieces = 0, last = 0;
  options_.on_text = [&](size_t prompt, absl::string_view piece) {
    EXPECT_GE(prompt, last);
    last = prompt;
    ++pieces;
    absl::StrAppend(&streamed[prompt], piece);
  };
  EXPECT_EQ(GenerateTexts(prompts, options_, state_, alone), expected);
  EXPECT_EQ(streamed, expected);
  EXPECT_GT(pieces, 3 * prompts.size());
}

TEST(TextEnds, WhatMayBecomeAnotherCharacterIsKeptBack) {
  const std::pair<const char*, size_t> rows[] = {
      {"", 0},          {"ab", 2},           {"a\xc3", 1},        {"a\xc3\xa9", 3},
      {"a\xe2\x82", 1}, {"\xe2\x82\xac", 3}, {"\xf0\x9f\x98", 0}, {"x\xef\xbf\xbd", 1},
      {"\x80\x80", 2}};
  for (const auto& [text, whole] : rows) EXPECT_EQ(WholeCharacters(text), whole) << text;
}

class Negated final : public Algorithm {
 public:
  explicit Negated(Model& model) : model_(model) {}
  std::string name() const override { return "Negated"; }
  bool Match(Event, const State&) const override { return false; }
  absl::Status Apply(Event, State&, Logger&) override { return absl::OkStatus(); }
  void UseForInference(bool on) override {
    const torch::NoGradGuard no_grad;
    if (on == in_use_) return;
    in_use_ = on;
    for (at::Tensor& param : model_.parameters()) param.neg_();
  }

 private:
  Model& model_;
  bool in_use_ = false;
};

TEST_F(Generation, IsWithTheWeightsThatAlgorithmsWouldHaveOneUse) {
  const TokenLists trained = Generate(golden_.prompts);
  auto owned = std::make_unique<Negated>(*state_.model);
  Negated& negated = *owned;
  negated.UseForInference(true);
  const TokenLists expected = Generate(golden_.prompts);
  negated.UseForInference(false);
  ASSERT_NE(expected, trained);
  state_.algorithms.push_back(std::move(owned));
  EXPECT_EQ(Generate(golden_.prompts), expected);
  state_.algorithms.clear();
  EXPECT_EQ(Generate(golden_.prompts), trained) << "they are back";
}

TEST_F(Generation, MixedPrecisionGoesThroughTheCache) {
  state_.settings.precision = Precision::kAmpBf16;
  const TokenLists cached = Generate(golden_.prompts);
  ASSERT_THAT(cached, SizeIs(golden_.prompts.size()));
  for (size_t i = 0; i < cached.size(); ++i) {
    EXPECT_THAT(cached[i], SizeIs(20));
    EXPECT_EQ(cached[i][0], golden_.greedy[i][0]);
  }
}

TEST_F(Generation, TextsEndBeforeTheirEnd) {
  LocalCommunicator alone;
  options_.eos_token_id = {golden_.eos};
  const std::vector<std::string> texts = GenerateTexts(TextsOf(golden_.prompts), options_, state_, alone);
  EXPECT_EQ(texts[0], TextOf({golden_.greedy[0][0]}));
  EXPECT_EQ(texts[2], TextOf(golden_.greedy[2]));
  EXPECT_THAT(GenerateTexts({}, options_, state_, alone), SizeIs(0));
}

TEST_F(Generation, BadOptionsAndPromptsAreNamed) {
  const CausalDecoder& decoder = **DecoderOf(*state_.model);
  const auto error = [&](const TokenLists& prompts, const GenerateOptions& options) {
    return std::string(Validate(options, prompts, decoder).message());
  };
  EXPECT_EQ(error({{1}, std::vector<int64_t>(28, 0)}, {}), "");
  EXPECT_THAT(error({{1}, std::vector<int64_t>(29, 0)}, {}),
              HasSubstr("prompts[1] of 29 tokens and max_new_tokens 20 are more than the model's 48"));
  EXPECT_THAT(error({{1}, {}}, {}), HasSubstr("prompts[1] is empty"));
  EXPECT_THAT(error({{1, 61}}, {}), HasSubstr("prompts[0] has token 61, the model's vocabulary ends at 60"));
  EXPECT_THAT(error({{1}}, {.max_new_tokens = 0}), HasSubstr("max_new_tokens must be at least 1, got 0"));
  EXPECT_THAT(error({{1}}, {.max_new_tokens = std::numeric_limits<int64_t>::max()}), HasSubstr("are more than"));
  EXPECT_THAT(error({{1}}, {.eos_token_id = {3, 61}}), HasSubstr("eos_token_id must be from 0 to 60"));
  EXPECT_THAT(error({{1}}, {.sampling = {.top_p = 2}}), HasSubstr("generate: top_p must be"));
  EXPECT_THAT(error({{1}}, {.batch_size = -1}), HasSubstr("batch_size must be at least 0"));
  EXPECT_THAT(error({{1}}, {.logits = {.repetition_penalty = 0}}), HasSubstr("repetition_penalty must be above 0"));
  EXPECT_THAT(error({{1}}, {.logits = {.no_repeat_ngram_size = -1}}), HasSubstr("no_repeat_ngram_size must be"));
  EXPECT_THAT(error({{1}}, {.logits = {.min_new_tokens = 21}}), HasSubstr("from 0 to max_new_tokens, 20, got 21"));
  EXPECT_THAT(error({{1}}, {.beams = {.num_beams = 0}}), HasSubstr("num_beams must be from 1"));
  EXPECT_THAT(error({{1}}, {.beams = {.length_penalty = std::nan("")}}), HasSubstr("length_penalty must be"));
  EXPECT_THAT(error({{1}}, {.sampling = {.do_sample = true}, .beams = {.num_beams = 2}}),
              HasSubstr("num_beams above 1 needs do_sample: false"));
  EXPECT_THAT(error({{1}}, {.beams = {.num_beams = 2}, .on_text = [](size_t, absl::string_view) {}}),
              HasSubstr("cannot stream"));
  EXPECT_THAT(error({{1}}, {.stop_strings = {""}}), HasSubstr("stop_strings must have from 1"));
  state_.model = MakeTestModel();
  EXPECT_THAT(DecoderOf(*state_.model).status().message(), HasSubstr("not a language model"));
  EXPECT_THROW(Generate({{1}}), StatusError);
}

TEST(GenerateShares, EveryPromptHasOneRankAndSharesDifferByOne) {
  for (const size_t prompts : {0, 1, 2, 5, 8}) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const PromptShare share = ShareOf(prompts, rank, ranks);
        EXPECT_EQ(share.begin, next);
        next = share.end;
        EXPECT_LE(share.end - share.begin, share.most);
        EXPECT_GE(share.end - share.begin + 1, share.most);
      }
      EXPECT_EQ(next, prompts);
    }
  }
}

TEST(GenerateSchedule, FiresAtItsUnitsEventAndOnceABatch) {
  struct Row {
    Time interval;
    Event event;
    int64_t batches_before, batches, epochs_before, epochs, last;
    bool due;
  };
  const Row rows[] = {
      {Time::Batches(10), Event::kBatchCheckpoint, 9, 10, 0, 0, -1, true},
      {Time::Batches(10), Event::kBatchCheckpoint, 10, 11, 0, 0, -1, false},
      {Time::Batches(10), Event::kEpochCheckpoint, 9, 10, 0, 0, -1, false},
      {Time::Batches(10), Event::kBatchCheckpoint, 9, 10, 0, 0, 10, false},  // just ran
      {Time::Epochs(1), Event::kEpochCheckpoint, 10, 10, 0, 1, -1, true},
      {Time::Epochs(2), Event::kEpochCheckpoint, 10, 10, 0, 1, -1, false},
      {Time::Epochs(1), Event::kBatchCheckpoint, 9, 10, 0, 1, -1, false},
      {Time::Duration(0.25), Event::kBatchCheckpoint, 24, 25, 0, 0, -1, true},
      {Time::Batches(0), Event::kBatchCheckpoint, 9, 10, 0, 0, -1, false},
      {Time::Batches(0), Event::kFitEnd, 99, 100, 0, 0, -1, true},
      {Time::Batches(10), Event::kFitEnd, 99, 100, 0, 0, 90, true},
      {Time::Batches(10), Event::kFitEnd, 99, 100, 0, 0, 100, false},
  };
  for (const Row& row : rows) {
    State state;
    state.max_duration = Time::Batches(100);
    state.clock.previous_timestamp.batch = row.batches_before, state.timestamp.batch = row.batches;
    state.clock.previous_timestamp.epoch = row.epochs_before, state.timestamp.epoch = row.epochs;
    GenerateCallback callback;
    callback.interval = row.interval;
    callback.last_batch = row.last;
    EXPECT_EQ(GenerateIsDue(callback, row.event, state), row.due)
        << row.interval.ToString() << " " << EventName(row.event) << " " << row.batches;
  }
}

struct Table {
  int64_t batch;
  std::string name;
  std::vector<std::vector<std::string>> rows;
};

class TableSpawner final : public LoggerDestination {
 public:
  explicit TableSpawner(std::vector<Table>& tables) : tables_(tables) {}
  std::string name() const override { return "TableSpawner"; }
  absl::Status Write(const MetricRecord& record) override { return absl::OkStatus(); }
  absl::Status WriteTable(const TableRecord& record) override {
    EXPECT_THAT(record.columns, ElementsAre("prompt", "generation"));
    tables_.push_back({record.timestamp.batch, std::string(record.name), {record.rows.begin(), record.rows.end()}});
    return absl::OkStatus();
  }

 private:
  std::vector<Table>& tables_;
};

TrainerOptions GptRun(std::shared_ptr<Model> model) {
  TrainerOptions options = SmallRun();
  options.model = std::move(model);
  options.make_optimizer = MakeGptAdamW;
  options.train.dataset = Sentences(21);
  options.train.global_train_batch_size = 5;
  options.max_duration = Time::Batches(7);
  return options;
}

GenerateCallback SomePrompts(Time interval) {
  GenerateCallback callback;
  callback.prompts = {"\x05", "\x09\x09\x02", "\x07\x28\x11"};
  callback.interval = interval;
  callback.options.max_new_tokens = 6;
  callback.options.batch_size = 2;
  callback.options.sampling = {.do_sample = true, .seed = 9};
  return callback;
}

TEST(GenerateCallback, TrainingIsTheSameToTheBitWithIt) {
  GptOptions gpt = ReadGoldenGeneration().options;
  gpt.dropout = 0.2;  // reads torch's generator
  TrainerOptions plain = GptRun(MakeGoldenGpt(gpt)), with = GptRun(MakeGoldenGpt(gpt));
  std::vector<Table> tables;
  with.generate = {SomePrompts(Time::Batches(3)), SomePrompts(Time::Epochs(1))};
  with.loggers.push_back(std::make_unique<TableSpawner>(tables));
  const RunResult a = Train(std::move(plain)), b = Train(std::move(with));
  ASSERT_TRUE(b.status.ok()) << b.status;
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(LargestDifference(a, b), 0);
  std::vector<int64_t> batches;
  for (const Table& table : tables) {
    batches.push_back(table.batch);
    EXPECT_EQ(table.name, "generations");
    ASSERT_THAT(table.rows, SizeIs(3));
    EXPECT_EQ(table.rows[1][0], "\x09\x09\x02");
    EXPECT_THAT(table.rows[1][1], SizeIs(6));
  }
  EXPECT_THAT(batches, ElementsAre(3, 5, 6, 7, 7));  // 5 batches per epoch; both at the end
  EXPECT_NE(tables.front().rows, tables.back().rows);
}

TEST(GenerateCallback, ACacheThatCannotChangeItsOrderIsNamed) {
  class Fixed final : public DecoderCache {};
  EXPECT_THROW(Fixed().Reorder(std::vector<int64_t>{0}), c10::NotImplementedError);
}

// A user's language model without a cache: byte t is followed by t + 1. Each pass takes a second.
class Counting final : public LanguageModel {
 public:
  explicit Counting(ManualClock& clock) : LanguageModel(/*context=*/16, /*vocab=*/61), clock_(clock) {
    weight_ = register_parameter("weight", torch::ones({1}));
  }
  Outputs forward(const Batch& batch) override {
    if (!is_training()) clock_.Advance(absl::Seconds(1));
    return at::one_hot((batch.inputs + 1).remainder(61), 61).to(at::kFloat) * weight_;
  }

 private:
  ManualClock& clock_;
  at::Tensor weight_;
};

TEST(GenerateCallback, AUsersModelIsGeneratedFromAndItsTimeIsNoTrainingTime) {
  ManualClock clock;
  std::vector<Table> tables;
  TrainerOptions options = GptRun(std::make_shared<Counting>(clock));
  options.clock = &clock;
  options.generate = {SomePrompts(Time::Batches(2))};
  options.generate[0].options.sampling.do_sample = false;
  options.loggers.push_back(std::make_unique<TableSpawner>(tables));
  const RunResult result = Train(std::move(options));
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_THAT(tables, SizeIs(4));
  EXPECT_EQ(tables[0].rows[0][1], "\x06\x07\x08\x09\x0a\x0b");
  EXPECT_EQ(result.timestamp.total_wct, absl::ZeroDuration());
}

TEST(GenerateCallback, WhatCannotBeGeneratedIsSaidBeforeTraining) {
  TrainerOptions options = GptRun(MakeGoldenGpt(ReadGoldenGeneration().options));
  options.generate = {SomePrompts(Time::Batches(2))};
  options.generate[0].options.max_new_tokens = 46;
  EXPECT_THAT(Train(std::move(options)).status.message(), HasSubstr("prompts[1] of 3 tokens and max_new_tokens 46"));
  TrainerOptions other = SmallRun();
  other.generate = {SomePrompts(Time::Batches(2))};
  EXPECT_THAT(Train(std::move(other)).status.message(), HasSubstr("generate: the model is not a language model"));
}

}  // namespace
}  // namespace composer

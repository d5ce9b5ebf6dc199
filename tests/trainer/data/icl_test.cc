// In-context tasks have llm-foundry's examples, tokens and accuracies: tests/golden/icl.json.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "data/icl/answer_match.h"
#include "data/icl/few_shots.h"
#include "tests/support/temp_dir.h"
#include "trainer/data/collators.h"
#include "trainer/data/icl_source.h"
#include "trainer/metrics/icl_accuracy.h"
#include "trainer/tokenizers/byte_tokenizer.h"
#include "trainer/tokenizers/file_tokenizer.h"

namespace composer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json IclGolden() { return json::parse(std::ifstream("tests/golden/icl.json")); }

TEST(FewShots, AreThoseThatPythonChooses) {
  const json rows = IclGolden()["shots"];
  ASSERT_EQ(rows.size(), 9U);
  for (const json& row : rows) {
    const std::vector<std::vector<int64_t>> expected = row["chosen"];
    EXPECT_EQ(ChooseFewShots(row["size"], row["count"], row["seed"]), expected) << row["size"] << " " << row["count"];
  }
}

TEST(FewShots, ASetKeepsPythonsOrderWhileItGrows) {
  PythonSet set({8, 1, 16, 0});
  EXPECT_THAT(set.InOrder(), testing::UnorderedElementsAre(0, 1, 8, 16));
  for (int64_t i = 20; i < 60; ++i) set.Add(i);
  set.Remove(30);
  set.Remove(30);
  EXPECT_EQ(set.size(), 43U);
  EXPECT_FALSE(set.Has(30));
  EXPECT_TRUE(set.Has(59));
  EXPECT_EQ(set.InOrder().size(), 43U);
}

// The logits that the golden file describes.
at::Tensor LogitsOf(const at::Tensor& tokens, int64_t vocab) {
  const int64_t length = tokens.size(0);
  const at::Tensor a = tokens.unsqueeze(1), v = torch::arange(vocab);
  const at::Tensor b = torch::cat({torch::zeros({1}, at::kLong), tokens.slice(0, 0, length - 1)}).unsqueeze(1);
  at::Tensor values = (7 * a + 3 * b + 11 * v + a * v).remainder(101).to(at::kFloat) / 10;
  for (int64_t place = 0; place + 1 < length; ++place) {
    const int64_t next = tokens[place + 1].item<int64_t>();
    if ((place + tokens[place].item<int64_t>()) % 7 != 0 && next < vocab) values[place][next] += 8;
  }
  return values;
}

IclTaskOptions OptionsOf(const json& task, const std::string& path) {
  const json& arguments = task["arguments"];
  IclTaskOptions options;
  options.paths = {path};
  options.type = task["type"] == "multiple_choice" ? IclTaskType::kMultipleChoice
                 : task["type"] == "schema"        ? IclTaskType::kSchema
                                                   : IclTaskType::kLanguageModeling;
  options.num_fewshot = arguments.value("num_fewshot", 0);
  options.fewshot_random_seed = arguments.value("fewshot_random_seed", 1234U);
  options.prompt_string = arguments.value("prompt_string", "");
  options.example_delimiter = arguments.value("example_delimiter", "\n");
  options.continuation_delimiter = arguments.value("continuation_delimiter", " ");
  options.prelimiter = arguments.value("prelimiter", "");
  options.strip_dataset = arguments.value("strip_dataset", true);
  return options;
}

TEST(IclTask, TokensAndAccuraciesAreLlmFoundrys) {
  const TempDir folder;
  const json golden = IclGolden();
  ASSERT_EQ(golden["tasks"].size(), 10U);
  for (const json& task : golden["tasks"]) {
    std::string lines;
    for (const json& line : task["lines"]) lines += line.dump() + "\n";
    ASSERT_TRUE(AtomicWriteFile(folder.Path("task.jsonl"), lines).ok());
    const auto tokenizer = std::make_shared<const FileTokenizer>(
        FileTokenizerOptions{.path = "tests/golden/tokenizers/" + task["tokenizer"].get<std::string>()});
    const auto source =
        OpenIclTask(OptionsOf(task, folder.Path("task.jsonl")), task["arguments"].value("max_seq_len", 200), tokenizer);
    ASSERT_TRUE(source.ok()) << source.status();
    ASSERT_EQ((*source)->size(), static_cast<int64_t>(task["rows"].size()));
    const int64_t vocab = task["vocab"];
    const auto metric = task["type"] == "language_modeling" ? MakeIclLmAccuracy() : MakeIclMultipleChoiceAccuracy();
    const PadCollator collator({.pad_id = 1000000});
    for (int64_t begin = 0; begin < (*source)->size(); begin += 3) {  // questions are spread over batches
      std::vector<Sample> samples;
      for (int64_t i = begin; i < std::min(begin + 3, (*source)->size()); ++i) {
        samples.push_back((*source)->Get(i));
        const json& row = task["rows"][static_cast<size_t>(i)];
        const std::vector<int64_t> tokens = row["tokens"];
        EXPECT_TRUE(samples.back().tensors["inputs"].equal(torch::tensor(tokens, at::kLong)))
            << i << samples.back().tensors["inputs"] << task["arguments"];
        EXPECT_EQ(samples.back().tensors["icl"][0].item<int64_t>(), row["begin"].get<int64_t>());
        EXPECT_EQ(samples.back().tensors["icl"][1].item<int64_t>(), row["end"].get<int64_t>());
      }
      const Batch batch = collator.Collate(std::move(samples));
      std::vector<at::Tensor> logits;
      for (const at::Tensor& row : batch.inputs.unbind(0)) logits.push_back(LogitsOf(row, vocab));
      metric->Update(torch::stack(logits), batch);
    }
    EXPECT_NEAR(metric->Compute(), task["accuracy"].get<double>(), 1e-6) << task["type"] << task["arguments"];
  }
}

TEST(IclPrompts, TokensAndAnswersAreLlmFoundrys) {
  const TempDir folder;
  const json golden = IclGolden();
  ASSERT_EQ(golden["prompts"].size(), 6U);
  for (const json& task : golden["prompts"]) {
    std::string lines;
    for (const json& line : task["lines"]) lines += line.dump() + "\n";
    ASSERT_TRUE(AtomicWriteFile(folder.Path("task.jsonl"), lines).ok());
    const auto tokenizer = std::make_shared<const FileTokenizer>(
        FileTokenizerOptions{.path = "tests/golden/tokenizers/" + task["tokenizer"].get<std::string>(),
                             .roles = {{"eos", task["eos"].get<std::string>()}}});
    IclTaskOptions options = OptionsOf(task, folder.Path("task.jsonl"));
    options.type = IclTaskType::kGeneration;
    options.cot_delimiter = task["arguments"].value("cot_delimiter", "");
    GenerateOptions how;
    how.stop_strings = {"\n"};
    how.beams.num_beams = 3;
    const auto data = OpenIclPrompts(options, how, task["arguments"].value("max_seq_len", 200), tokenizer);
    ASSERT_TRUE(data.ok()) << data.status();
    const GenerateOptions& generate = (*data)->generate_options();
    EXPECT_EQ(generate.max_new_tokens, task["max_new_tokens"].get<int64_t>()) << task["arguments"];
    EXPECT_EQ(generate.eos_token_id, std::vector<int64_t>{*tokenizer->special_tokens().eos});
    EXPECT_THAT(generate.stop_strings, testing::ElementsAre("\n"));
    EXPECT_EQ(generate.beams.num_beams, 3);
    ASSERT_EQ((*data)->size(), static_cast<int64_t>(task["rows"].size()));
    for (int64_t i = 0; i < (*data)->size(); ++i) {
      const Batch batch = (*data)->Load({i});
      const std::vector<int64_t> tokens = task["rows"][static_cast<size_t>(i)];
      EXPECT_TRUE(batch.inputs[0].equal(torch::tensor(tokens, at::kLong))) << i << batch.inputs << task["arguments"];
      std::vector<std::string> answers = json::parse(batch.texts.at(kAnswersKey)[0]);
      std::sort(answers.begin(), answers.end());
      answers.erase(std::unique(answers.begin(), answers.end()), answers.end());
      EXPECT_EQ(json(answers), task["answers"][static_cast<size_t>(i)]);
    }
  }
}

TEST(AnswerMatch, IsLlmFoundrys) {
  const json golden = IclGolden();
  ASSERT_EQ(golden["normalized"].size(), 13U);
  for (const json& row : golden["normalized"])
    EXPECT_EQ(NormalizedAnswer(row[0].get<std::string>()), row[1].get<std::string>()) << row;
  ASSERT_EQ(golden["matches"].size(), 15U);
  const auto metric = MakeIclGenerationAccuracy();
  double right = 0;
  for (const json& row : golden["matches"]) {
    const json& options = row["options"];
    const AnswerMatchOptions match = {
        .early_stopping_criteria = options.value("stopping_criteria", std::vector<std::string>()),
        .cot_delimiter = options.value("cot_delimiter", ""),
        .do_normalization = options.value("do_normalization", true)};
    const std::string text = row["text"];
    const std::vector<std::string> answers = row["answers"];
    EXPECT_EQ(IsRightAnswer(text, answers, match), row["right"].get<bool>()) << row;
    Batch batch;
    batch.texts[kGenerationsKey] = {text};
    batch.texts[kAnswersKey] = {row["answers"].dump()};
    MakeIclGenerationAccuracy(match)->Update(Outputs(), batch);
    if (!options.empty()) continue;
    metric->Update(Outputs(), batch);
    right += row["right"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(metric->sums()[0], right);
  EXPECT_THROW(metric->Update(Outputs(), Batch()), c10::ValueError);
}

TEST(IclPrompts, WhatCannotBeAskedIsNamed) {
  const TempDir folder;
  const std::string path = folder.Path("task.jsonl");
  const auto error = [&](const std::string& line, int64_t max_seq_len, bool eos) {
    EXPECT_TRUE(AtomicWriteFile(path, line).ok());
    return std::string(OpenIclPrompts({.paths = {path}, .type = IclTaskType::kGeneration}, {}, max_seq_len,
                                      std::make_shared<const ByteTokenizer>(eos))
                           .status()
                           .message());
  };
  const std::string good = R"({"context": "a", "answer": "four", "aliases": null})";
  EXPECT_EQ(error(good, 64, true), "");
  EXPECT_THAT(error(good, 64, false), HasSubstr("needs a tokenizer with an end-of-text token"));
  EXPECT_THAT(error(good, 5, true), HasSubstr("max_seq_len: 5, but answers have up to 5 tokens"));
  GenerateOptions how;
  how.eos_token_id = {7};
  const IclTaskOptions task = {.paths = {path}, .type = IclTaskType::kGeneration};
  const auto without = OpenIclPrompts(task, how, 64, std::make_shared<const ByteTokenizer>(/*eos=*/false));
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ((*without)->generate_options().eos_token_id, std::vector<int64_t>{7});
  how.logits.min_new_tokens = 6;
  EXPECT_THAT(OpenIclPrompts(task, how, 64, std::make_shared<const ByteTokenizer>(/*eos=*/true)).status().message(),
              HasSubstr("generation_kwargs.min_new_tokens: 6, but answers have up to 5 tokens"));
  EXPECT_THAT(error(R"({"context": "a"})", 64, true), HasSubstr("there is no text `answer`"));
  EXPECT_THAT(error(R"({"context": "a", "answer": "b", "aliases": [1]})", 64, true),
              HasSubstr("`aliases` must have texts only"));
  EXPECT_THAT(error(R"({"context": "a", "answer": "b", "chain_of_thought": 1})", 64, true),
              HasSubstr("there is no text `chain_of_thought`"));
  EXPECT_THAT(OpenIclPrompts({.paths = {path}}, {}, 64, nullptr).status().message(),
              HasSubstr("give the job the model's `tokenizer`"));
}

TEST(IclTask, AQuestionWithoutAllItsChoicesIsLeftOut) {
  const auto metric = MakeIclMultipleChoiceAccuracy();
  std::vector<double>& seen = metric->lists()[0];
  seen = {0, 0, 2, 1, 5.0, 0, 1, 2, 1, 4.0,  // right
          1, 0, 2, 0, 3.0, 1, 1, 2, 0, 2.0,  // wrong
          2, 0, 2, 0, 1.0};                  // one choice of two
  EXPECT_EQ(metric->Compute(), 0.5);
  seen.resize(10);
  EXPECT_EQ(metric->Compute(), 1);
  metric->Reset();
  EXPECT_TRUE(std::isnan(metric->Compute()));
}

TEST(IclTask, LinesThatCannotBeReadAreNamed) {
  const TempDir folder;
  const auto tokenizer = std::make_shared<const ByteTokenizer>(/*eos=*/false);
  const auto error = [&](IclTaskType type, const std::string& lines) {
    EXPECT_TRUE(AtomicWriteFile(folder.Path("task.jsonl"), lines).ok());
    return std::string(
        OpenIclTask({.paths = {folder.Path("task.jsonl")}, .type = type}, 64, tokenizer).status().message());
  };
  constexpr IclTaskType kLm = IclTaskType::kLanguageModeling, kMc = IclTaskType::kMultipleChoice;
  const std::string good = R"({"context": "a", "continuation": "b"})";
  EXPECT_EQ(error(kLm, good), "");
  EXPECT_THAT(error(kLm, good + "\n[]"), HasSubstr("this line is not a JSON object"));
  EXPECT_THAT(error(kLm, R"({"context": "a", "answer": "b"})"), HasSubstr("there is no text `continuation`"));
  EXPECT_THAT(error(kLm, ""), HasSubstr("no line"));
  EXPECT_THAT(error(kMc, R"({"query": "a", "choices": [], "gold": 0})"), HasSubstr("no list `choices`"));
  EXPECT_THAT(error(kMc, R"({"query": "a", "choices": ["b", 1], "gold": 0})"), HasSubstr("must have texts only"));
  for (const char* gold : {"2", "-1", "1.5", "\"b\""})
    EXPECT_THAT(error(kMc, absl::StrCat(R"({"query": "a", "choices": ["b", "c"], "gold": )", gold, "}")),
                HasSubstr("`gold` must be a whole number from 0 to 1"));
  EXPECT_THAT(error(IclTaskType::kSchema, R"({"context_options": "a", "gold": 0, "continuation": "b"})"),
              HasSubstr("no list `context_options`"));
  EXPECT_FALSE(OpenIclTask({.paths = {folder.Path("no.jsonl")}}, 64, tokenizer).ok());
  EXPECT_THAT(OpenIclTask({.paths = {folder.Path("task.jsonl")}}, 64, nullptr).status().message(),
              HasSubstr("give the job the model's `tokenizer`"));
  EXPECT_EQ(error(kLm, R"({"context": "a", "continuation": "bbbbbbbb"})"), "");
  const auto source = OpenIclTask({.paths = {folder.Path("task.jsonl")}}, 8, tokenizer);
  EXPECT_THROW((*source)->Get(0), c10::ValueError);
}

TEST(IclTask, ACategoryHasItsLinesAlone) {
  const TempDir folder;
  const std::string path = folder.Path("task.jsonl");
  const auto line = [](const char* text, const char* category) {
    return json{{"context", text}, {"continuation", "x"}, {"category", category}}.dump() + "\n";
  };
  ASSERT_TRUE(AtomicWriteFile(path, line("a", "law") + line("b", "art") + line("c", "law")).ok());
  EXPECT_THAT(*IclCategories({path}), testing::ElementsAre("art", "law"));
  const auto task = IclTask::Open({.paths = {path}, .num_fewshot = 1, .category = "law"});
  ASSERT_TRUE(task.ok()) << task.status();
  ASSERT_EQ(task->size(), 2);
  EXPECT_EQ(task->Texts(0, 0).preamble, "c x") << "examples are of the category, too";
  EXPECT_EQ(task->Texts(1, 0).context, "\nc");
  ASSERT_TRUE(AtomicWriteFile(path, line("a", "law") + R"({"context": "b", "continuation": "x"})").ok());
  EXPECT_THAT(IclCategories({path}).status().message(), HasSubstr("there is no text `category`"));
}

TEST(IclTask, StripsWhatPythonStrips) {
  EXPECT_EQ(StripText(" \t\n a b \xc2\xa0\xe2\x80\x83\x1c"), "a b");
  EXPECT_EQ(StripTextEnd(" a "), " a");
  EXPECT_EQ(StripText(" \n"), "");
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "job/data/icl_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "job/data/generation_rows.h"
#include "trainer/data/collators.h"
#include "trainer/data/icl_source.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/metrics/bleu.h"
#include "trainer/metrics/icl_accuracy.h"

namespace composer {
namespace {

constexpr IntRange kIclLength = {.min = 2, .max = 1 << 24};

IclTaskOptions ReadIclTask(ConfigMap& task) {
  IclTaskOptions options;
  options.paths = task.StringList("dataset_uri", {});
  if (options.paths.empty()) task.Reject("dataset_uri", "required: a file of JSON lines");
  const std::string type = task.Choice(
      "icl_task_type", {"language_modeling", "multiple_choice", "schema", "generation_task_with_answers"}, "");
  if (!task.Has("icl_task_type"))
    task.Reject("icl_task_type",
                "required: language_modeling, multiple_choice, schema or generation_task_with_answers");
  options.type = type == "schema"                         ? IclTaskType::kSchema
                 : type == "multiple_choice"              ? IclTaskType::kMultipleChoice
                 : type == "generation_task_with_answers" ? IclTaskType::kGeneration
                                                          : IclTaskType::kLanguageModeling;
  options.cot_delimiter = task.String("cot_delimiter", "");
  options.fewshot_random_seed =
      static_cast<uint32_t>(task.Int("fewshot_random_seed", 1234, {.min = 0, .max = UINT32_MAX}));
  options.prompt_string = task.String("prompt_string", "");
  options.example_delimiter = task.String("example_delimiter", options.example_delimiter);
  options.continuation_delimiter = task.String("continuation_delimiter", options.continuation_delimiter);
  options.prelimiter = task.String("prelimiter", "");
  if (task.Has("question_prelimiter")) {
    if (task.Has("prelimiter")) task.Reject("question_prelimiter", "is another name of prelimiter: give one of them");
    options.prelimiter = task.String("question_prelimiter", "");
  }
  options.strip_dataset = task.Bool("strip_dataset", true);
  return options;
}

// How the texts that a model writes are compared with the answers.
AnswerMatchOptions ReadAnswerMatch(ConfigMap& task, const IclTaskOptions& options) {
  AnswerMatchOptions match;
  match.cot_delimiter = options.cot_delimiter;
  match.early_stopping_criteria = task.StringList("early_stopping_criteria", {});
  match.do_normalization = task.Bool("do_normalization", true);
  for (const char* key : {"cot_delimiter", "early_stopping_criteria", "do_normalization", "generation_kwargs"}) {
    if (task.Has(key) && options.type != IclTaskType::kGeneration)
      task.Reject(key, "is of the icl_task_type generation_task_with_answers alone");
  }
  for (const std::string& stop : match.early_stopping_criteria) {
    if (stop.empty()) task.Reject("early_stopping_criteria", "a text at which answers end must not be empty");
  }
  return match;
}

// How those texts are made. llm-foundry passes the keys on to transformers' generate, beside max_new_tokens.
GenerateOptions ReadGeneration(ConfigMap& task, const AnswerMatchOptions& match) {
  GenerateOptions generate;
  generate.stop_strings = match.early_stopping_criteria;
  generate.max_new_tokens = std::numeric_limits<int64_t>::max();  // until the answers are known
  ConfigMap config = task.Map("generation_kwargs");
  if (config.exists()) ReadGenerationKwargs(config, /*seed=*/0, generate);
  return generate;
}

// `named` says that the task has metric_names.
MetricList MetricsOfTask(IclTaskType type, const AnswerMatchOptions& match, bool named) {
  MetricList metrics;
  if (type == IclTaskType::kGeneration && named) metrics.push_back(MakeBleu(match));
  metrics.push_back(type == IclTaskType::kGeneration         ? MakeIclGenerationAccuracy(match)
                    : type == IclTaskType::kLanguageModeling ? MakeIclLmAccuracy()
                                                             : MakeIclMultipleChoiceAccuracy());
  return metrics;
}

absl::StatusOr<std::shared_ptr<const Dataset>> OpenIclData(const IclTaskOptions& options,
                                                           const GenerateOptions& generate, int64_t max_seq_len,
                                                           const DataContext& context) {
  if (options.type == IclTaskType::kGeneration)
    return OpenIclPrompts(options, generate, max_seq_len, context.tokenizer);
  ASSIGN_OR_RETURN(std::shared_ptr<const SampleSource> source, OpenIclTask(options, max_seq_len, context.tokenizer));
  const auto pad = context.tokenizer->special_tokens().pad;
  Preparation preparation;
  preparation.collator = std::make_shared<const PadCollator>(PadOptions{.pad_id = pad.value_or(0)});
  return PrepareSamples(std::move(source), std::move(preparation));
}

// Returns the categories of the task's lines; {""} without has_categories, or after an error.
std::vector<std::string> ReadCategories(ConfigMap& task, const IclTaskOptions& options) {
  if (!task.Bool("has_categories", false) || options.paths.empty()) return {""};
  absl::StatusOr<std::vector<std::string>> categories = IclCategories(options.paths);
  if (categories.ok() && !categories->empty()) return *std::move(categories);
  task.Reject("has_categories", categories.ok() ? "the files have no line" : categories.status().message());
  return {""};
}

// How much a task counts in its category.
double BenchmarkWeight(const std::string& weighting, const std::string& task,
                       const std::vector<IclEvaluation>& evaluations) {
  if (weighting == "EQUAL") return 1;
  const auto found = std::find_if(evaluations.begin(), evaluations.end(),
                                  [&](const IclEvaluation& each) { return each.task == task; });
  if (found == evaluations.end()) return 1;
  const double questions = std::max(1.0, static_cast<double>(CountIclLines(found->paths).value_or(0)));
  return weighting == "SAMPLE_SZ" ? questions : std::max(1.0, std::log2(questions));
}

EvalGauntletOptions::Category ReadCategory(ConfigMap& config, const std::string& weighting,
                                           const std::vector<IclEvaluation>& evaluations) {
  EvalGauntletOptions::Category category;
  category.name = config.String("name");
  for (ConfigMap benchmark : config.MapList("benchmarks")) {
    const std::string name = benchmark.String("name");
    const std::string task =
        absl::StrCat(name, "/", benchmark.RequiredInt("num_fewshot", {.min = 0, .max = 1 << 10}), "-shot");
    category.benchmarks.push_back({task, benchmark.Double("random_baseline", 0, {.min = 0, .max = 0.999999}),
                                   BenchmarkWeight(weighting, task, evaluations)});
  }
  if (category.benchmarks.empty()) config.Reject("benchmarks", "required: a list of {name, num_fewshot}");
  return category;
}

// Without `averages` there is one of all categories, as in llm-foundry.
void ReadAverages(ConfigMap gauntlet, EvalGauntletOptions& options) {
  std::vector<std::string> names;
  for (const EvalGauntletOptions::Category& category : options.categories) names.push_back(category.name);
  ConfigMap averages = gauntlet.Map("averages");
  if (!averages.exists()) {
    options.averages.emplace_back("default_average", names);
    return;
  }
  for (const std::string& name : averages.Keys()) {
    options.averages.emplace_back(name, averages.StringList(name, {}));
    if (std::find(names.begin(), names.end(), name) != names.end())
      averages.Reject(name, "is the name of a category: an average needs another");
    for (const std::string& category : options.averages.back().second) {
      if (std::find(names.begin(), names.end(), category) == names.end())
        averages.Reject(name, absl::StrCat("`", category, "` is none of the categories", DidYouMean(category, names)));
    }
  }
}

}  // namespace

std::optional<EvalGauntletOptions> ReadEvalGauntlet(ConfigMap root, const std::vector<IclEvaluation>& tasks) {
  ConfigMap config = root.Map("eval_gauntlet");
  if (!config.exists()) return std::nullopt;
  EvalGauntletOptions options;
  const std::string weighting = config.Choice("weighting", {"EQUAL", "SAMPLE_SZ", "LOG_SAMPLE_SZ"}, "EQUAL");
  options.subtract_random_baseline = config.Bool("subtract_random_baseline", true);
  options.rescale_accuracy = config.Bool("rescale_accuracy", true);
  if (options.rescale_accuracy && !options.subtract_random_baseline)
    config.Reject("rescale_accuracy", "needs subtract_random_baseline: true");
  for (ConfigMap category : config.MapList("categories"))
    options.categories.push_back(ReadCategory(category, weighting, tasks));
  if (options.categories.empty()) config.Reject("categories", "required: a list of {name, benchmarks}");
  if (tasks.empty()) config.Reject("categories", "there are no icl_tasks to average");
  ReadAverages(config, options);
  return options;
}

std::vector<IclEvaluation> ReadIclTasks(ConfigMap root) {
  const int64_t length = root.Int("icl_seq_len", 1024, kIclLength);
  const int64_t subset = root.Int("icl_subset_num_batches", -1, {.min = -1});
  std::vector<IclEvaluation> evaluations;
  size_t number = 0;
  for (ConfigMap task : root.MapList("icl_tasks")) {
    const std::string key = absl::StrCat("icl_tasks.", number++);
    IclTaskOptions options = ReadIclTask(task);
    const int64_t max_seq_len = task.Int("max_seq_len", length, kIclLength);
    const std::string label = task.String("label");
    EvaluatorOptions evaluator;
    evaluator.batch_size = task.Int("batch_size", 8, {.min = 1});
    evaluator.subset_num_batches = subset;
    evaluator.metric_names = task.StringList("metric_names", {});
    const AnswerMatchOptions match = ReadAnswerMatch(task, options);
    const GenerateOptions generate = ReadGeneration(task, match);
    evaluator.make_metrics = [type = options.type, match, named = !evaluator.metric_names.empty()] {
      return MetricsOfTask(type, match, named);
    };
    const std::vector<std::string> categories = ReadCategories(task, options);
    for (const int64_t shots : task.IntList("num_fewshot", {0}, {.min = 0, .max = 1 << 10})) {
      options.num_fewshot = shots;
      const std::string name = absl::StrCat(label, "/", shots, "-shot");
      for (const std::string& category : categories) {
        options.category = category;
        evaluator.label = category.empty() ? name : absl::StrCat(name, "/", category);
        const auto open = [options, generate, max_seq_len](const DataContext& context) {
          return OpenIclData(options, generate, max_seq_len, context);
        };
        evaluations.push_back({name, options.paths, key, evaluator, open});
      }
    }
  }
  return evaluations;
}

}  // namespace composer

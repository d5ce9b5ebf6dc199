// SPDX-License-Identifier: Apache-2.0
#include "job/run/job_inference.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "job/run/build_trainer.h"
#include "trainer/core/random.h"
#include "trainer/models/sampling.h"

namespace composer {

absl::StatusOr<TrainerOptions> BuildInferenceOptions(Job job, const JobPlace& place, const JobCommand& command) {
  const bool reads_data = command.name != "generate";
  if (reads_data && job.evaluations.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("eval_dataloader: required by composer ", command.name, ": the data that it reads"));
  if (reads_data) RETURN_IF_ERROR(OpenEvaluationData(job, place));
  SeedForConstruction(job.options.seed);
  TrainerOptions options;
  options.run_name = std::move(job.options.run_name);
  options.make_model = job.model;
  options.seed = job.options.seed;
  options.deterministic_mode = job.options.deterministic_mode;
  options.attention_backend = job.options.attention_backend;
  options.precision = job.options.precision;
  options.fsdp = std::move(job.options.fsdp);
  options.tensor_parallel_degree = job.options.tensor_parallel_degree;
  options.layer_plan = std::move(job.options.layer_plan);
  options.split_model = std::move(job.options.split_model);
  options.keep_in_fp32 = std::move(job.options.keep_in_fp32);
  options.layer_policies = std::move(job.options.layer_policies);
  options.engine = std::move(job.options.engine);
  options.generate = std::move(job.options.generate);
  options.visible_devices = place.visible_gpus;
  options.train_metrics_interval = 0;
  options.tokenizer = job.options.tokenizer != nullptr ? job.options.tokenizer
                      : job.tokenizer                  ? job.tokenizer()
                                                       : nullptr;
  if (reads_data) {
    for (const Job::Evaluation& evaluation : job.evaluations) options.evaluators.push_back(evaluation.options);
    if (job.eval_gauntlet) options.callbacks.push_back(std::make_unique<EvalGauntlet>(*job.eval_gauntlet));
  }
  for (const AlgorithmFactory& make : job.algorithms) options.algorithms.push_back(make());
  options.make_algorithm = [plugins = job.plugins](const AlgorithmOrigin& origin) {
    return MakeAlgorithm(origin, plugins->tables(), /*composer_compat=*/false);
  };
  options.load = std::move(job.options.load);
  options.load.load_path = command.checkpoint.empty() ? job.options.save.save_folder : command.checkpoint;
  options.load.load_weights_only = true;
  options.load.open_store = WithPluginStores(job.plugins, place.open_store);
  return options;
}

absl::StatusOr<std::unique_ptr<Trainer>> CreateForInference(TrainerOptions options, const JobCommand& command) {
  if (command.name != "generate") options.generate.clear();
  absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(std::move(options));
  absl::string_view message = trainer.status().message();
  if (trainer.ok() || !absl::ConsumePrefix(&message, "load_path: ")) return trainer;
  const bool is_missing = absl::IsNotFound(trainer.status());
  const absl::StatusCode code = is_missing ? absl::StatusCode::kInvalidArgument : trainer.status().code();
  if (!command.checkpoint.empty()) return absl::Status(code, absl::StrCat("checkpoint: ", message));
  return absl::Status(
      code, absl::StrCat("save_folder: ", message,
                         is_missing ? "; train the job first, or name a checkpoint after the job's file" : ""));
}

absl::StatusOr<EvaluatorOptions> ChooseDataloader(const std::vector<EvaluatorOptions>& evaluators,
                                                  const std::string& label) {
  if (label.empty() && evaluators.size() == 1) return evaluators[0];
  std::vector<std::string> labels;
  for (const EvaluatorOptions& evaluator : evaluators) {
    if (!label.empty() && evaluator.label == label) return evaluator;
    labels.push_back(evaluator.label);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--dataloader: ", label.empty() ? "required" : absl::StrCat("`", label, "` is none"),
                   "; eval_dataloader has ", absl::StrJoin(labels, ", ")));
}

absl::StatusOr<GenerateCallback> ChooseGeneration(const std::vector<GenerateCallback>& callbacks, uint64_t seed,
                                                  const Tokenizer* tokenizer, const JobCommand& command) {
  GenerateCallback chosen;
  chosen.options.sampling.seed = seed;
  if (!callbacks.empty()) chosen = callbacks[0];
  if (!command.prompts.empty()) chosen.prompts = command.prompts;
  if (chosen.prompts.empty())
    return absl::InvalidArgumentError("--prompt: required, because the job has no callbacks.generate with prompts");
  GenerateOptions& options = chosen.options;
  SamplingOptions& sampling = options.sampling;
  options.max_new_tokens = command.max_new_tokens.value_or(options.max_new_tokens);
  sampling.do_sample = sampling.do_sample || command.do_sample;
  sampling.temperature = command.temperature.value_or(sampling.temperature);
  sampling.top_k = command.top_k.value_or(sampling.top_k);
  sampling.top_p = command.top_p.value_or(sampling.top_p);
  if (command.seed) sampling.seed = static_cast<uint64_t>(*command.seed);
  options.logits.min_new_tokens = command.min_new_tokens.value_or(options.logits.min_new_tokens);
  options.logits.repetition_penalty = command.repetition_penalty.value_or(options.logits.repetition_penalty);
  options.logits.no_repeat_ngram_size = command.no_repeat_ngram_size.value_or(options.logits.no_repeat_ngram_size);
  options.beams.num_beams = command.num_beams.value_or(options.beams.num_beams);
  options.beams.length_penalty = command.length_penalty.value_or(options.beams.length_penalty);
  if (!command.stop_strings.empty()) options.stop_strings = command.stop_strings;
  RETURN_IF_ERROR(Validate(sampling));
  if (!command.system.empty()) chosen.system = command.system;
  if (!command.chat || !chosen.chat_template.empty()) return chosen;
  if (tokenizer == nullptr || tokenizer->Files().empty())
    return absl::InvalidArgumentError(
        "--chat: needs a tokenizer with a chat template: `tokenizer: {name: hf, path: ...}` in the job, or "
        "callbacks.generate.chat_template");
  chosen.chat_template = tokenizer->name();  // the folder that it was read from
  return chosen;
}

}  // namespace composer

// This part of Trainer runs a model without training it.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/predict_loop.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

using Results = std::vector<std::pair<std::string, double>>;

void AddResults(const std::vector<Evaluator>& evaluators, Results& results) {
  for (const Evaluator& evaluator : evaluators) {
    if (evaluator.last_batch < 0) continue;
    for (const auto& metric : evaluator.metrics) {
      results.emplace_back(absl::StrCat("metrics/", evaluator.label, "/", metric->name()), metric->Compute());
    }
  }
}

}  // namespace

Results Trainer::eval_results() const {
  Results results;
  AddResults(state_.evaluators, results);
  results.insert(results.end(), own_results_.begin(), own_results_.end());
  return results;
}

absl::Status Trainer::Eval(const EvalOptions& options) {
  return Explained(CatchTorch([&]() -> absl::Status {
    const bool own = !options.evaluators.empty() || options.subset_num_batches.has_value();
    std::vector<EvaluatorOptions> wanted = options.evaluators.empty() ? options_.evaluators : options.evaluators;
    if (wanted.empty())
      return absl::InvalidArgumentError("eval_dataloader: required, of the trainer or as evaluators of Eval");
    std::vector<Evaluator> standing;
    if (own) {
      for (EvaluatorOptions& evaluator : wanted)
        evaluator.subset_num_batches = options.subset_num_batches.value_or(evaluator.subset_num_batches);
      ASSIGN_OR_RETURN(standing, MakeEvaluators(wanted));
      state_.evaluators.swap(standing);
      own_results_.clear();
    }
    const absl::Cleanup restore = [&] {
      if (own) state_.evaluators.swap(standing);
    };
    RETURN_IF_ERROR(engine_->Run(Event::kEvalStandaloneStart));
    Communicator& data = parallel_->mesh().data();
    for (Evaluator& evaluator : state_.evaluators) RunEvaluator(evaluator, state_, *engine_, data, logger_);
    if (own) AddResults(state_.evaluators, own_results_);
    return engine_->Run(Event::kEvalStandaloneEnd);
  }));
}

absl::StatusOr<std::vector<Outputs>> Trainer::Predict(const PredictOptions& options) {
  if (options.dataset == nullptr || options.dataset->size() == 0)
    return absl::InvalidArgumentError("predict: the dataset is missing or empty");
  if (options.batch_size < 1) return absl::InvalidArgumentError("predict: batch_size must be at least 1");
  std::vector<Outputs> outputs;
  RETURN_IF_ERROR(Explained(CatchTorch([&] {
    LoaderOptions loader;
    loader.label = "predict";
    loader.spec = options.spec;
    loader.global_batch_size = options.batch_size * state_.identity.data_ranks;
    loader.rank = state_.identity.data_rank;
    loader.world_size = state_.identity.data_ranks;
    loader.subset_num_batches = options.subset_num_batches;
    const auto shared = MakeLoader(options.dataset, loader);
    Prefetcher batches(shared, options.prefetch, /*num_epochs=*/1);
    outputs = RunPredict(*shared, batches, options.return_outputs, state_, *engine_);
  })));
  return outputs;
}

absl::StatusOr<std::vector<std::string>> Trainer::Generate(const std::vector<std::string>& prompts,
                                                           const GenerateOptions& options) {
  std::vector<std::string> texts;
  RETURN_IF_ERROR(
      Explained(CatchTorch([&] { texts = GenerateTexts(prompts, options, state_, parallel_->mesh().data()); })));
  return texts;
}

}  // namespace composer

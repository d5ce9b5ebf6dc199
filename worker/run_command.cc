// SPDX-License-Identifier: Apache-2.0
#include "worker/run_command.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "job/run/job_inference.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/sample_order.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/tokenizers/chat_prompt.h"
#include "worker/prediction_file.h"

namespace composer {
namespace {

using Json = nlohmann::ordered_json;

void PrintLine(const std::string& text) {
  absl::PrintF("%s\n", text);
  std::fflush(stdout);
}

std::string ToText(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

constexpr char kGauntletPrefix[] = "icl/metrics/eval_gauntlet/";

std::string EvalTable(const std::string& checkpoint, const std::vector<std::pair<std::string, double>>& results) {
  size_t width = 0;
  for (const auto& [name, value] : results) width = std::max(width, name.size());
  std::string text = checkpoint;
  for (const auto& [name, value] : results) absl::StrAppendFormat(&text, "\n%-*s  %.6g", width, name, value);
  return text;
}

// `logged` is what callbacks have logged at the end: the averages of in-context tasks are results, too.
absl::Status Evaluate(Trainer& trainer, const JobCommand& command, const MetricHistory& logged) {
  RETURN_IF_ERROR(trainer.Eval());
  if (trainer.state().identity.rank != 0) return absl::OkStatus();
  auto results = trainer.eval_results();
  const auto end = static_cast<std::ptrdiff_t>(results.size());
  for (const auto& [name, values] : logged.data) {
    if (absl::StartsWith(name, kGauntletPrefix)) results.emplace_back(name, values.back().second);
  }
  std::sort(results.begin() + end, results.end());
  if (!command.json) {
    PrintLine(EvalTable(trainer.loaded_from(), results));
    return absl::OkStatus();
  }
  Json metrics = Json::object();
  for (const auto& [name, value] : results) metrics[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  PrintLine(ToText({{"checkpoint", trainer.loaded_from()}, {"metrics", std::move(metrics)}}));
  return absl::OkStatus();
}

// Brings the outputs of each batch to rank 0 in the order of the samples, and into the file there.
class GatherOutputs final : public Callback {
 public:
  static constexpr int64_t kMostDims = 14;

  // The ranks of a tensor-parallel group, which follow each other, have the same outputs. `file` is null but on rank 0.
  GatherOutputs(Communicator& world, int tensor_ranks, PredictionFile* file)
      : world_(world), tensor_ranks_(tensor_ranks), file_(file) {}
  std::string name() const override { return "GatherOutputs"; }
  EventSet events() const override { return {Event::kPredictAfterForward}; }
  absl::Status Run(Event, State& state, Logger&) override {
    return CatchTorch([&] { return Gather(state); });
  }

 private:
  absl::Status Gather(const State& state) {
    const int64_t samples = state.global_samples;
    at::Tensor own;
    if (state.batch.num_samples > 0) own = state.outputs->detach().to(world_.device()).contiguous();
    if (own.defined() && (own.dim() == 0 || own.size(0) != state.batch.num_samples || own.dim() > kMostDims))
      return absl::InvalidArgumentError(absl::StrCat("predict: the model's outputs have no row for each of the ",
                                                     state.batch.num_samples, " samples"));
    // The last rank always has a sample (RankShare); a rank without one learns the shape from it.
    at::Tensor shape = torch::zeros({kMostDims + 2}, at::kLong);
    if (own.defined()) {
      shape[0] = static_cast<int64_t>(own.scalar_type());
      shape[1] = own.dim();
      for (int64_t i = 0; i < own.dim(); ++i) shape[i + 2] = own.size(i);
    }
    shape = shape.to(world_.device());
    if (world_.world_size() > 1) world_.Broadcast(shape, (state.identity.data_ranks - 1) * tensor_ranks_);
    const at::Tensor told = shape.cpu();
    const auto dtype = static_cast<at::ScalarType>(told[0].item<int64_t>());
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < told[1].item<int64_t>(); ++i) sizes.push_back(told[i + 2].item<int64_t>());
    for (int rank = 0; rank < state.identity.data_ranks; ++rank) {
      sizes[0] = RankShare(samples, rank, state.identity.data_ranks).size();
      if (sizes[0] == 0) continue;
      at::Tensor rows = rank == state.identity.data_rank
                            ? own
                            : torch::empty(sizes, at::TensorOptions(dtype).device(world_.device()));
      if (rows.sizes() != at::IntArrayRef(sizes) || rows.scalar_type() != dtype)
        return absl::InvalidArgumentError("predict: the outputs of one batch differ in shape or dtype between ranks");
      if (world_.world_size() > 1) world_.Broadcast(rows, rank * tensor_ranks_);
      if (file_ != nullptr) file_->Add(rows.cpu());
    }
    return absl::OkStatus();
  }

  Communicator& world_;
  int tensor_ranks_;
  PredictionFile* file_;
};

absl::Status Predict(Trainer& trainer, const EvaluatorOptions& data, const JobCommand& command, PredictionFile* file) {
  Trainer::PredictOptions options;
  options.dataset = data.dataset;
  options.batch_size = data.batch_size;
  options.subset_num_batches = command.subset_num_batches;
  options.return_outputs = false;
  options.prefetch = data.prefetch;
  RETURN_IF_ERROR(trainer.Predict(options).status());
  if (file == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(file->Finish());
  PrintLine(absl::StrCat(command.output, ": ", file->rows(), " outputs of ", trainer.loaded_from()));
  return absl::OkStatus();
}

// What `composer generate` prints of each prompt: its own text, or with a chat what the user says.
struct Generation {
  std::vector<std::string> shown;
  std::string between;  // "\n" with a chat: what is said and the answer stand on lines of their own
  GenerateCallback wanted;
};

// Prints pieces as they come, on rank 0: each prompt once, and its text behind it.
void StreamTo(Generation& generation) {
  generation.wanted.options.on_text = [shown = generation.shown, between = generation.between,
                                       last = std::optional<size_t>()](size_t prompt, absl::string_view piece) mutable {
    if (last != prompt) absl::PrintF("%s%s%s", last ? "\n" : "", PrintableText(shown[prompt]), between);
    last = prompt;
    absl::PrintF("%s", PrintableText(piece));
    std::fflush(stdout);
  };
}

absl::StatusOr<Generation> ReadGeneration(const TrainerOptions& options, const JobCommand& command, bool prints) {
  Generation generation;
  ASSIGN_OR_RETURN(generation.wanted,
                   ChooseGeneration(options.generate, options.seed, options.tokenizer.get(), command));
  GenerateCallback& wanted = generation.wanted;
  generation.shown = wanted.prompts;
  if (!wanted.chat_template.empty()) {
    ASSIGN_OR_RETURN(wanted.prompts,
                     ChatPrompts(wanted.prompts, wanted.chat_template, wanted.system, options.tokenizer.get()));
    wanted.chat_template.clear();
    generation.between = "\n";
  }
  if (command.stream && prints) StreamTo(generation);
  if (command.stream && !prints) wanted.options.on_text = [](size_t, absl::string_view) {};
  return generation;
}

absl::Status Generate(Trainer& trainer, const Generation& generation, const JobCommand& command) {
  const GenerateCallback& wanted = generation.wanted;
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, trainer.Generate(wanted.prompts, wanted.options));
  if (trainer.state().identity.rank != 0) return absl::OkStatus();
  if (command.stream) {
    PrintLine("");
    return absl::OkStatus();
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& shown = generation.shown[i];
    PrintLine(command.json ? ToText({{"prompt", shown}, {"generation", texts[i]}})
                           : PrintableText(absl::StrCat(shown, generation.between, texts[i])));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunJobCommand(TrainerOptions options, const JobCommand& command, std::unique_ptr<Trainer>& trainer) {
  // The choices come first, so that a mistake is reported before a large model is loaded.
  Communicator& world = *options.communicator;
  std::optional<PredictionFile> file;
  EvaluatorOptions data;
  Generation generation;
  MetricHistory logged;
  if (command.name == "eval") options.loggers.push_back(std::make_unique<InMemoryLogger>(&logged));
  if (command.name == "predict") {
    ASSIGN_OR_RETURN(data, ChooseDataloader(options.evaluators, command.dataloader));
    if (world.rank() == 0) RETURN_IF_ERROR(file.emplace(command.output).Open());
    options.callbacks.push_back(
        std::make_unique<GatherOutputs>(world, options.tensor_parallel_degree, file ? &*file : nullptr));
  } else if (command.name == "generate") {
    ASSIGN_OR_RETURN(generation, ReadGeneration(options, command, world.rank() == 0));
    options.generate = {generation.wanted};  // the trainer checks it before it loads
  }
  ASSIGN_OR_RETURN(trainer, CreateForInference(std::move(options), command));
  absl::Status status = command.name == "eval"      ? Evaluate(*trainer, command, logged)
                        : command.name == "predict" ? Predict(*trainer, data, command, file ? &*file : nullptr)
                                                    : Generate(*trainer, generation, command);
  trainer->Close();  // before what its callbacks use
  return status;
}

}  // namespace composer

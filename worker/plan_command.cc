// SPDX-License-Identifier: Apache-2.0
#include "worker/plan_command.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/option_help.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "config/job_check.h"
#include "config/override.h"
#include "job/plan/run_plan.h"
#include "job/run/build_trainer.h"
#include "job/run/validate.h"
#include "storage/open_store.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/data_loader.h"
#include "trainer/init/construct_model.h"
#include "trainer/memory_dry_run.h"
#include "trainer/models/language_model.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/model_params.h"
#include "worker/exit_codes.h"

namespace composer {
namespace {

constexpr char kPlanUsage[] = "usage: composer plan JOB.yaml [-n N] [--gpu NAME] [key=value ...]\n";
constexpr char kPlanHelp[] =
    "Says what a run will cost, without starting it: the memory of a rank by cause,\n"
    "operations, bytes sent, and with --gpu whether it fits and how long it takes.\n";
constexpr int64_t kLargestDryRun = 20'000'000;  // parameters; larger models take too long on a CPU
constexpr double kUsualOptimizerBytes = 8;      // Adam's two moments
constexpr int kTableRanks[] = {1, 8, 64, 512};

struct PlanOptions {
  JobSource job;
  int ranks = 1;
  std::string gpu;
};

std::vector<Option> PlanTable(PlanOptions& options) {
  return {Valued("nproc", "N", "ranks", "1", IntoInt(&options.ranks, 1, 1 << 20), 'n'),
          Valued("gpu", "NAME", absl::StrCat("what each rank has: ", absl::StrJoin(GpuNames(), ", ")), "",
                 IntoString(&options.gpu))};
}

absl::StatusOr<PlanOptions> ReadPlanOptions(const std::vector<std::string>& args) {
  PlanOptions options;
  std::vector<std::string> others;
  for (const std::string& arg : args)
    (!arg.empty() && arg[0] != '-' && LooksLikeOverride(arg) ? options.job.overrides : others).push_back(arg);
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(PlanTable(options), others, 1));
  options.job.yaml_path = paths[0];
  options.job.world_size = options.ranks;
  return options;
}

// Returns the bytes that the job's optimizer keeps for a parameter: of a small model, since nothing is allocated for
// the job's own.
double OptimizerBytes(const OptimizerFactory& make) {
  double bytes = 0, parameters = 0;
  const absl::Status made = CatchTorch([&] {
    const std::shared_ptr<Model> model = MakeMlp({256, 256, 256});
    for (const at::Tensor& param : ParametersOnce(*model)) parameters += static_cast<double>(param.numel());
    const std::unique_ptr<Optimizer> optimizer = make(*model);
    for (const auto& [name, tensor] : optimizer->state()) bytes += static_cast<double>(tensor.nbytes());
    return absl::OkStatus();
  });
  return made.ok() ? bytes / parameters : kUsualOptimizerBytes;  // its groups may name layers of the job's model
}

// Returns why the job's data cannot be opened; "" if it could.
std::string OpenItsData(Job& job, const Environment& env) {
  JobPlace place;
  place.open_store = [env](const std::string& where) { return OpenStore(where, env); };
  job.evaluations.clear();
  const absl::Status opened = CatchTorch([&] { return OpenData(job, place); });
  return std::string(opened.message().substr(0, opened.message().find('\n')));
}

int64_t TokensOf(const Model& model, const Job& job, bool has_data) {
  const auto* const language = dynamic_cast<const LanguageModel*>(&model);
  if (!has_data || job.options.train.dataset == nullptr) return language == nullptr ? 0 : language->context();
  const at::Tensor inputs = FirstSamples(*job.options.train.dataset, 1).inputs;
  return inputs.defined() && inputs.dim() == 2 && inputs.scalar_type() == at::kLong ? inputs.size(1) : 0;
}

// Fills in the activations, from a dry run of the step on this machine's CPU.
void MeasureActivations(const TrainerOptions& options, const std::string& no_data, PlannedModel& model,
                        const PlannedRanks& ranks) {
  if (!no_data.empty()) {
    model.why_no_activations = absl::StrCat("the data cannot be opened (", no_data, ")");
  } else if (model.parameters > kLargestDryRun) {
    model.why_no_activations = "the model is too large for a dry run on this machine's CPU";
  } else {
    const PlannedStep step = PlanStep(options, ranks.ranks);
    model.why_no_activations = step.not_counted;
    if (step.has_dry_run()) model.activation_bytes = ActivationBytes(ranks.memory, step) + step.batches;
  }
}

absl::StatusOr<std::string> Plan(Job job, const PlanOptions& asked, const std::optional<GpuKind>& gpu,
                                 const Environment& env) {
  const std::string no_data = OpenItsData(job, env);
  job.options.device = at::kCPU;
  job.options.make_model = ModelWithChanges(job);
  job.options.make_optimizer = job.optimizer;
  const ConstructedModel made = ConstructModel(job.options.make_model, job.options.seed);
  PlannedModel model;
  for (const at::Tensor& param : ParametersOnce(*made.model)) {
    model.parameters += param.numel();
    model.trainable += param.requires_grad() ? param.numel() : 0;
  }
  model.flops_per_sample = made.model->flops_per_sample();
  model.tokens_per_sample = TokensOf(*made.model, job, no_data.empty());
  model.optimizer_bytes_per_parameter = OptimizerBytes(job.optimizer);
  ASSIGN_OR_RETURN(const PlannedRanks ranks, PlanRanks(*made.model, model, job.options, asked.ranks));
  MeasureActivations(job.options, no_data, model, ranks);
  std::vector<PlannedRanks> others;
  for (const int count : kTableRanks) {
    const auto other = PlanRanks(*made.model, model, job.options, count);
    if (other.ok() && count != asked.ranks) others.push_back(*other);
  }
  return RunPlanText(model, ranks, others, gpu, job.options);
}

absl::Status ReadAndPlan(const PlanOptions& asked, const Environment& env, std::ostream& out) {
  std::optional<GpuKind> gpu;
  if (!asked.gpu.empty()) {
    absl::StatusOr<GpuKind> found = FindGpu(asked.gpu);
    if (!found.ok()) return Annotate(found.status(), "--gpu");
    gpu = *found;
  }
  ASSIGN_OR_RETURN(Job job, ReadJob(asked.job, env));
  const ConfigNode effective = job.effective;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::string text, Plan(std::move(job), asked, gpu, env));
    out << text;
    return absl::OkStatus();
  });
  if (status.ok()) return status;
  const absl::Status brief(status.code(), status.message().substr(0, status.message().find('\n')));
  return absl::IsInvalidArgument(status) ? WithPlace(effective, brief) : brief;
}

}  // namespace

int RunPlan(const std::vector<std::string>& args, const Environment& env, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<PlanOptions> asked = ReadPlanOptions(args);
  if (absl::IsCancelled(asked.status())) {
    out << kPlanUsage << "\n" << kPlanHelp << "\n" << asked.status().message();
    return exit_code::kDone;
  }
  const absl::Status status = asked.ok() ? ReadAndPlan(*asked, env, out) : asked.status();
  if (status.ok()) return exit_code::kDone;
  err << "composer plan: " << PrintableText(status.message()) << "\n";
  if (!asked.ok()) err << kPlanUsage;
  return ExitCodeFor(status.code());
}

}  // namespace composer

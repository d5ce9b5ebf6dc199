// SPDX-License-Identifier: Apache-2.0
#include "job/run/validate.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "config/job_check.h"
#include "job/run/build_trainer.h"
#include "job/run/sample_check.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/data_loader.h"
#include "trainer/init/change_model.h"
#include "trainer/init/construct_model.h"
#include "trainer/optim/apply_schedulers.h"

namespace composer {
namespace {

// Returns the trainer's errors about the options, as far as they can be checked without a world.
absl::Status CheckOptions(Job& job) {
  TrainerOptions options = std::move(job.options);
  options.make_model = job.model;
  options.make_optimizer = job.optimizer;
  for (const Job::Evaluation& evaluation : job.evaluations) options.evaluators.push_back(evaluation.options);
  if (options.tensor_parallel_degree == 1 && !options.fsdp.has_value())
    RETURN_IF_ERROR(Validate(options, /*world_size=*/1));
  job.options = std::move(options);
  return absl::OkStatus();
}

absl::Status CheckSchedules(const Job& job, const Loader& batches) {
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  for (const SchedulerFactory& make : job.schedulers) schedulers.push_back(make());
  if (schedulers.empty()) return absl::OkStatus();
  const ConstructedModel made = ConstructModel(job.model, job.options.seed);
  const std::unique_ptr<Optimizer> optimizer = job.optimizer(*made.model);
  const ScheduleContext context{ScaledMaxDuration(job.options), batches.batches_per_epoch(),
                                job.options.scale_schedule_ratio};
  return Annotate(CheckSchedulers(schedulers, context, *optimizer), "schedulers");
}

std::string SamplesText(const TrainDataOptions& train, const Loader& batches) {
  const int64_t samples = train.dataset->size(), count = batches.batches_per_epoch();
  if (samples == kUnknownSize) return "a stream of samples";
  // Otherwise the number of batches depends on the number of ranks.
  if (train.global_train_batch_size == 0) return absl::StrCat(samples, " samples");
  return absl::StrCat(samples, " samples, ", count, count == 1 ? " batch" : " batches", " an epoch");
}

absl::StatusOr<std::string> Check(Job job) {
  RETURN_IF_ERROR(OpenData(job, JobPlace()));
  RETURN_IF_ERROR(CheckOptions(job));
  job.model = ModelWithChanges(job);
  ASSIGN_OR_RETURN(const SampleCheck check, CheckSamples(job.model, *job.options.train.dataset, job.options.seed));
  for (const Job::Evaluation& evaluation : job.evaluations)
    if (evaluation.key.empty())
      RETURN_IF_ERROR(CheckSamples(job.model, *evaluation.options.dataset, job.options.seed).status());
  const std::shared_ptr<Loader> batches = LoaderOfOneRank(job.options);
  RETURN_IF_ERROR(CatchTorch([&] { return CheckSchedules(job, *batches); }));
  return absl::StrFormat("run %s in %s; %s, %d parameters%s", job.run_name, job.run_folder,
                         SamplesText(job.options.train, *batches), check.parameters,
                         check.not_tried.empty() ? "" : absl::StrCat("; shapes were not tried: ", check.not_tried));
}

}  // namespace

ModelFactory ModelWithChanges(const Job& job) {
  const auto algorithms = std::make_shared<std::vector<std::unique_ptr<Algorithm>>>();
  for (const AlgorithmFactory& make : job.algorithms) algorithms->push_back(make());
  // The changed factory has pointers to the algorithms only.
  return [algorithms, changed = WithChanges(job.model, OrderOfChanges(*algorithms, {}),
                                            {job.options.precision, job.options.device, job.options.layer_policies},
                                            job.options.layer_plan.empty() ? job.options.tensor_parallel_degree : 1)] {
    return changed();
  };
}

std::shared_ptr<Loader> LoaderOfOneRank(const TrainerOptions& options) {
  const TrainDataOptions& train = options.train;
  LoaderOptions loader;
  loader.global_batch_size = std::max<int64_t>(
      1, train.global_train_batch_size > 0 ? train.global_train_batch_size : train.device_train_batch_size);
  loader.shuffle = train.shuffle;
  loader.seed = options.seed;
  loader.drop_last = train.drop_last;
  loader.subset_num_batches = train.train_subset_num_batches;
  if (train.make_order) loader.order = train.make_order(OrderRequestOf(*train.dataset, loader));
  return MakeLoader(train.dataset, loader);
}

absl::StatusOr<std::string> ValidateJob(const JobSource& source, const Environment& env) {
  ASSIGN_OR_RETURN(Job job, ReadJob(source, env));
  const ConfigNode effective = job.effective;
  absl::StatusOr<std::string> found = absl::InternalError("");
  const absl::Status status = CatchTorch([&] {
    found = Check(std::move(job));
    return found.status();
  });
  return status.ok() ? found : WithPlace(effective, status);
}

}  // namespace composer

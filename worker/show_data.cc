// SPDX-License-Identifier: Apache-2.0
#include "worker/show_data.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/png.h"
#include "base/option_help.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "config/job_check.h"
#include "config/override.h"
#include "job/run/build_trainer.h"
#include "job/run/job_inference.h"
#include "job/run/validate.h"
#include "storage/open_store.h"
#include "trainer/callbacks/output/image_tensors.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/data_loader.h"
#include "worker/exit_codes.h"
#include "worker/shown_batch.h"

namespace composer {
namespace {

constexpr char kShowUsage[] = "usage: composer data show JOB.yaml [-n N] [flags] [key=value ...]\n";
constexpr char kShowHelp[] =
    "Prints the first samples of an epoch as the job's model gets them: shapes, numbers,\n"
    "decoded text, and which targets the loss counts. Algorithms that change batches\n"
    "(mixup, …) come later and are not run.\n";

struct ShowOptions {
  JobSource job;
  int64_t samples = 3, epoch = 0, characters = 600;
  std::string dataloader = "train", png;
};

OptionSetter IntoCount(int64_t* target, int64_t least) {
  return [=](absl::string_view text) -> absl::Status {
    int64_t count = 0;
    if (!absl::SimpleAtoi(text, &count) || count < least || count > 1 << 20)
      return absl::InvalidArgumentError(absl::StrCat("must be a whole number from ", least, " to ", 1 << 20));
    *target = count;
    return absl::OkStatus();
  };
}

std::vector<Option> TableOf(ShowOptions& options) {
  return {Valued("samples", "N", "samples that are shown", absl::StrCat(options.samples),
                 IntoCount(&options.samples, 1), 'n'),
          Valued("dataloader", "LABEL", "train, or the label of one of eval_dataloader", options.dataloader,
                 IntoString(&options.dataloader)),
          Valued("epoch", "N", "of the order and of what transforms draw", "0", IntoCount(&options.epoch, 0)),
          Valued("characters", "N", "bytes of a text that are printed; 0: all", absl::StrCat(options.characters),
                 IntoCount(&options.characters, 0)),
          Valued("png", "FILE", "a grid of the samples' inputs, if they are pictures", "", IntoString(&options.png))};
}

absl::StatusOr<ShowOptions> ReadOptions(const std::vector<std::string>& args) {
  ShowOptions options;
  const auto is_override = [](const std::string& arg) { return arg[0] != '-' && LooksLikeOverride(arg); };
  std::vector<std::string> others;
  for (const std::string& arg : args)
    (!arg.empty() && is_override(arg) ? options.job.overrides : others).push_back(arg);
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(TableOf(options), others, 1));
  options.job.yaml_path = paths[0];
  options.job.trains = false;
  return options;
}

// Opens what is shown.
absl::StatusOr<std::shared_ptr<Loader>> OpenLoader(Job& job, const ShowOptions& show, const Environment& env) {
  JobPlace place;
  place.open_store = [env](const std::string& where) { return OpenStore(where, env); };
  if (show.dataloader == "train") {
    if (!job.train_dataset) return absl::InvalidArgumentError("train_dataloader: required, because it is to be shown");
    job.evaluations.clear();
    RETURN_IF_ERROR(OpenData(job, place));
    TrainDataOptions& train = job.options.train;
    if (train.global_train_batch_size == 0 && train.device_train_batch_size == 0)
      train.global_train_batch_size = show.samples;
    return LoaderOfOneRank(job.options);
  }
  RETURN_IF_ERROR(OpenEvaluationData(job, place));
  std::vector<EvaluatorOptions> all;
  for (const Job::Evaluation& evaluation : job.evaluations) all.push_back(evaluation.options);
  ASSIGN_OR_RETURN(const EvaluatorOptions chosen, ChooseDataloader(all, show.dataloader));
  return MakeLoader(chosen.dataset, {.label = chosen.label, .global_batch_size = chosen.batch_size});
}

std::string EpochText(const Loader& loader, int64_t epoch) {
  const int64_t samples = loader.dataset().size(), batches = loader.batches_per_epoch();
  return absl::StrCat(loader.label(), ", epoch ", epoch, ": ",
                      samples == kUnknownSize ? "a stream of samples" : absl::StrCat(samples, " samples"),
                      batches > 0 ? absl::StrCat(", ", batches, batches == 1 ? " batch" : " batches") : "");
}

absl::Status Show(const ShowOptions& show, const Tokenizer* tokenizer, Loader& loader, std::ostream& out) {
  out << EpochText(loader, show.epoch) << "\n";
  std::vector<Image> images;
  for (int64_t shown = 0, at = 0; shown < show.samples;) {
    const LoadedBatch loaded = loader.Load(show.epoch, at);
    const Batch& batch = loaded.batch;
    if (loaded.global_samples == 0) break;
    out << "\nthe batch from sample " << at << " on: " << DescribeBatch(batch);
    const int64_t count = std::min(show.samples - shown, batch.num_samples);
    for (int64_t i = 0; i < count; ++i) {
      out << "\nsample " << at + i << ", id " << batch.sample_ids[static_cast<size_t>(i)] << "\n"
          << DescribeSample(batch, i, tokenizer, show.characters);
    }
    if (!show.png.empty() && (!IsImageBatch(batch.inputs) || batch.inputs.dim() != 4))
      return absl::InvalidArgumentError("--png: the inputs are not pictures [C, H, W]");
    if (!show.png.empty()) {
      for (Image& image : ImagesOf(batch.inputs, count, /*channels_last=*/false)) images.push_back(std::move(image));
    }
    shown += count;
    at += loaded.global_samples;
  }
  if (images.empty()) return absl::OkStatus();
  absl::StatusOr<Image> grid = GridOf(images);
  if (!grid.ok()) return Annotate(grid.status(), "--png");
  ASSIGN_OR_RETURN(const std::string file, EncodePng({grid->height, grid->width, grid->channels, grid->pixels}));
  RETURN_IF_ERROR(Annotate(AtomicWriteFile(show.png, file), "--png"));
  out << "\n" << show.png << ": " << images.size() << " pictures\n";
  return absl::OkStatus();
}

absl::Status ReadAndShow(const ShowOptions& show, const Environment& env, std::ostream& out) {
  ASSIGN_OR_RETURN(Job job, ReadJob(show.job, env));
  const ConfigNode effective = job.effective;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::shared_ptr<Loader> loader, OpenLoader(job, show, env));
    return Show(show, job.options.tokenizer.get(), *loader, out);
  });
  if (status.ok()) return status;
  // A user's mistake has no stack that adds anything.
  const absl::Status brief(status.code(), status.message().substr(0, status.message().find('\n')));
  return absl::IsInvalidArgument(status) ? WithPlace(effective, brief) : brief;
}

}  // namespace

int RunShowData(const std::vector<std::string>& args, const Environment& env, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<ShowOptions> show = ReadOptions(args);
  if (absl::IsCancelled(show.status())) {
    out << kShowUsage << "\n" << kShowHelp << "\n" << show.status().message();
    return exit_code::kDone;
  }
  const absl::Status status = show.ok() ? ReadAndShow(*show, env, out) : show.status();
  if (status.ok()) return exit_code::kDone;
  err << "composer data show: " << PrintableText(status.message()) << "\n";
  if (!show.ok()) err << kShowUsage;
  return ExitCodeFor(status.code());
}

}  // namespace composer

// This part of Trainer makes the loaders of a run, and checks that its data is that of the checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/elastic/virtual_shards.h"
#include "trainer/models/across_ranks.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

// Every rank must compute a loss that compares the samples of all ranks as often as the others, with as many samples.
absl::Status CheckAcrossRanks(const State& state, const TrainDataOptions& train, int64_t global_batch, bool elastic) {
  const auto* model = dynamic_cast<const AcrossRanks*>(state.model.get());
  const int ranks = state.identity.data_ranks;
  if (model == nullptr || !model->needs_ranks() || ranks == 1) return absl::OkStatus();
  const auto refused = [](const auto&... words) {
    return absl::InvalidArgumentError(
        absl::StrCat(words...,
                     ": the loss compares the samples of all ranks, which need equal shares of each batch; or "
                     "set model.gather_in_batch_negatives: false"));
  };
  if (global_batch % ranks != 0)
    return refused("global_train_batch_size: ", global_batch, " must be a multiple of the ", ranks, " ranks");
  const int64_t size = train.dataset->size();
  if (!train.drop_last && (size == kUnknownSize || size % global_batch != 0))
    return refused("train_dataloader.drop_last: it must be true, since the last batch of an epoch is smaller");
  if (state.settings.auto_microbatch)
    return refused("device_train_microbatch_size: auto, where ranks try sizes of their own");
  if (elastic) return refused("determinism: elastic, where ranks have different microbatches");
  return absl::OkStatus();
}

}  // namespace

// With another batch size, dataset or seed, the epoch continues after exactly as many samples as were seen of it. Its
// batches are numbered such that the last one has the last number, as schedules and views expect.
void Trainer::KeepPlaceInEpoch() {
  if (state_.clock.batches_per_epoch == 0) return;
  Timestamp& now = state_.timestamp;
  int64_t left = 0;
  const Loader& loader = *state_.train_dataloader;
  for (int64_t at = now.sample_in_epoch, samples; (samples = loader.SamplesAt(at)) > 0; at += samples) ++left;
  now.batch_in_epoch = std::max<int64_t>(now.sample_in_epoch > 0 ? 1 : 0, state_.clock.batches_per_epoch - left);
}

// Like the global batch size, the number of virtual shards is part of what the run computes.
absl::StatusOr<int> Trainer::SettleVirtualShards() const {
  const int64_t wanted = options_.virtual_shards, saved = resumed_from_.empty() ? 0 : saved_data_.virtual_shards;
  if (wanted == 0) return 0;
  if (saved > 0 && wanted > 0 && saved != wanted && !MayChange("virtual_shards")) {
    return absl::InvalidArgumentError(absl::StrCat("virtual_shards: ", wanted, ", but checkpoint ", resumed_from_,
                                                   " was trained with ", saved, "; ", kPermitChange,
                                                   "virtual_shards]"));
  }
  const int64_t shards = wanted > 0 ? wanted : saved > 0 ? saved : DefaultVirtualShards(state_.identity.world_size);
  RETURN_IF_ERROR(
      ValidateVirtualShards(static_cast<int>(std::min<int64_t>(shards, 1 << 20)), parallel_->Place().degrees));
  return static_cast<int>(shards);
}

absl::Status Trainer::BuildData() {
  ASSIGN_OR_RETURN(saved_data_.virtual_shards, SettleVirtualShards());
  if (options_.train.dataset != nullptr) {
    ASSIGN_OR_RETURN(PreparedData prepared, PrepareData(options_.train));
    UseData(std::move(prepared));
  } else {
    saved_data_.seed = static_cast<int64_t>(state_.identity.seed);
    saved_data_.configuration = options_.configuration;
    for (RunCheckpoints* checkpoints : AllCheckpoints()) checkpoints->SetDataSettings(saved_data_);
  }
  ASSIGN_OR_RETURN(std::vector<Evaluator> evaluators, MakeEvaluators(options_.evaluators));
  for (size_t i = 0; i < evaluators.size(); ++i) {  // a checkpoint may have filled the metrics
    evaluators[i].metrics = std::move(state_.evaluators[i].metrics);
    evaluators[i].last_batch = state_.evaluators[i].last_batch;
  }
  state_.evaluators = std::move(evaluators);
  return absl::OkStatus();
}

absl::Status Trainer::CheckSavedData(const TrainDataOptions& train) const {
  const int64_t batch = train.global_train_batch_size, size = train.dataset->size();  // batch 0: unset
  if (batch > 0 && batch != saved_data_.global_train_batch_size && !MayChange("global_train_batch_size")) {
    return absl::InvalidArgumentError(
        absl::StrCat("global_train_batch_size: ", batch, ", but checkpoint ", resumed_from_, " was trained with ",
                     saved_data_.global_train_batch_size, "; ", kPermitChange, "global_train_batch_size]"));
  }
  if (size != saved_data_.dataset_size && !MayChange("train_dataloader")) {
    return absl::InvalidArgumentError(absl::StrCat("train_dataloader: the dataset has ", size,
                                                   " samples, but checkpoint ", resumed_from_, " was trained on ",
                                                   saved_data_.dataset_size, "; ", kPermitChange, "train_dataloader]"));
  }
  return absl::OkStatus();
}

// The global batch size is fixed at the first launch and stays for the life of the run, whatever the number of ranks
// is. Data that a program gives in place of other data is its decision and is not compared with a checkpoint.
absl::StatusOr<Trainer::PreparedData> Trainer::PrepareData(const TrainDataOptions& train) const {
  RETURN_IF_ERROR(ValidateTrainData(train, state_.identity.data_ranks));
  const bool replaces = train_data_.loader != nullptr;
  const bool resumed = !replaces && !resumed_from_.empty() && saved_data_.global_train_batch_size > 0;
  if (resumed) RETURN_IF_ERROR(CheckSavedData(train));
  int64_t global_batch = train.global_train_batch_size;
  if (global_batch == 0)
    global_batch =
        resumed ? saved_data_.global_train_batch_size : train.device_train_batch_size * state_.identity.data_ranks;
  RETURN_IF_ERROR(CheckAcrossRanks(state_, train, global_batch, saved_data_.virtual_shards > 0));
  PreparedData prepared;
  prepared.options = train;
  prepared.settings = {.global_train_batch_size = global_batch,
                       .dataset_size = train.dataset->size(),
                       .seed = static_cast<int64_t>(state_.identity.seed),
                       .virtual_shards = saved_data_.virtual_shards,
                       .configuration = options_.configuration};
  prepared.is_other = replaces || (resumed && (global_batch != saved_data_.global_train_batch_size ||
                                               train.dataset->size() != saved_data_.dataset_size));
  LoaderOptions loader = OptionsOfLoaders();
  loader.label = train.label;
  loader.global_batch_size = global_batch;
  loader.shuffle = train.shuffle;
  loader.drop_last = train.drop_last;
  loader.subset_num_batches = train.train_subset_num_batches;
  if (const int shards = static_cast<int>(saved_data_.virtual_shards); shards > 0) {
    loader.share = [place = parallel_->Place(), shards, microbatch = state_.settings.device_train_microbatch_size](
                       int64_t count) { return SamplesOf(place, NumLeaves(count, shards, microbatch), count); };
  }
  loader.predownload = train.predownload;
  loader.spec = train.spec;
  if (train.make_order) loader.order = train.make_order(OrderRequestOf(*train.dataset, loader));
  prepared.data.loader = MakeLoader(train.dataset, loader);
  if (!prepared.is_other && !state_.data_place.empty())
    prepared.data.loader->Resume(state_.timestamp.epoch, state_.timestamp.sample_in_epoch, state_.data_place);
  prepared.data.batches = std::make_unique<Prefetcher>(prepared.data.loader, train.prefetch);
  return prepared;
}

void Trainer::UseData(PreparedData prepared) {
  saved_data_ = prepared.settings;
  for (RunCheckpoints* checkpoints : AllCheckpoints()) checkpoints->SetDataSettings(saved_data_);
  options_.train = std::move(prepared.options);
  train_data_ = std::move(prepared.data);
  state_.train_dataloader = train_data_.loader;
  state_.dataloader = train_data_.loader.get();
  state_.clock.batches_per_epoch = train_data_.loader->batches_per_epoch();
  if (prepared.is_other) state_.data_place.clear();  // it was a place in other data
  const int64_t global_batch = saved_data_.global_train_batch_size;
  if (prepared.is_other) KeepPlaceInEpoch();
  if (!state_.settings.auto_microbatch) return;
  state_.settings.auto_microbatch->LimitTo((global_batch + state_.identity.data_ranks - 1) /
                                           state_.identity.data_ranks);
  state_.settings.device_train_microbatch_size = state_.settings.auto_microbatch->size();
}

LoaderOptions Trainer::OptionsOfLoaders() const {
  LoaderOptions loader;
  loader.seed = state_.identity.seed;
  loader.rank = state_.identity.data_rank;
  loader.world_size = state_.identity.data_ranks;
  return loader;
}

absl::StatusOr<std::vector<Evaluator>> Trainer::MakeEvaluators(const std::vector<EvaluatorOptions>& evaluators) const {
  RETURN_IF_ERROR(ValidateEvaluators(evaluators, options_));
  std::vector<Evaluator> made;
  for (const EvaluatorOptions& options : evaluators) {
    LoaderOptions of_loader = OptionsOfLoaders();
    of_loader.label = options.label;
    of_loader.spec = options.spec;
    of_loader.global_batch_size = options.batch_size * state_.identity.data_ranks;
    of_loader.subset_num_batches = options.subset_num_batches;
    const auto loader = MakeLoader(options.dataset, of_loader);
    Evaluator evaluator;
    evaluator.label = options.label;
    evaluator.loader = loader;
    evaluator.batches = std::make_shared<Prefetcher>(loader, options.prefetch, /*num_epochs=*/1);
    ASSIGN_OR_RETURN(evaluator.metrics, MetricsOf(options, *state_.model));
    evaluator.eval_interval = options.eval_interval;
    evaluator.device_eval_microbatch_size = options.device_eval_microbatch_size;
    made.push_back(std::move(evaluator));
  }
  return made;
}

}  // namespace composer

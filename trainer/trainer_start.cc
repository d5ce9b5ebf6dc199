// This part of Trainer decides what a run begins with: weights, time and data.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/elastic/virtual_shards.h"
#include "trainer/trainer.h"

namespace composer {

// Checks now, so that a prompt that is too long does not end a run at its hundredth batch.
absl::Status Trainer::CheckGenerate() {
  for (const GenerateCallback& callback : options_.generate) {
    ASSIGN_OR_RETURN(CausalDecoder* const decoder, DecoderOf(*state_.model));
    TokenLists prompts;
    for (const std::string& prompt : callback.prompts) prompts.push_back(decoder->Encode(prompt));
    RETURN_IF_ERROR(composer::Validate(callback.options, prompts, *decoder));
  }
  return absl::OkStatus();
}

void Trainer::AddMemoryTier() {
  if (options_.memory == nullptr) return;
  SaveOptions save;
  save.save_folder = "memory";
  save.save_interval = options_.save_memory_interval;
  save.save_num_checkpoints_to_keep = 2;  // the older one serves when a node was lost while the newer one was written
  save.save_overlap = SaveOverlap::kSkip;
  save.save_latest.clear();
  save.save_overwrite = true;
  save.best_effort = true;
  save.autoresume = options_.save.autoresume;
  save.on_resume = options_.save.on_resume;
  save.open_store = [store = options_.memory](const std::string&) { return store; };
  auto saver = std::make_unique<CheckpointSaver>(save, *communicator_, StoreFor("memory"), *supervision_, save_thread_);
  memory_ = &saver->checkpoints();
  savers_.push_back(saver.get());
  state_.callbacks.push_back(std::move(saver));
}

// Resumes from the snapshot in memory if it is newer than the newest checkpoint; otherwise, or if it cannot be loaded,
// returns "".
absl::StatusOr<std::string> Trainer::ResumeFromMemory() {
  if (memory_ == nullptr) return "";
  RETURN_IF_ERROR(memory_->Open(state_));
  RETURN_IF_ERROR(checkpoints_->KeepFirstState(state_));
  const absl::StatusOr<std::optional<CheckpointName>> snapshot = memory_->Newest();
  ASSIGN_OR_RETURN(const std::optional<CheckpointName> durable, checkpoints_->Newest());
  if (!snapshot.ok()) {
    if (state_.rank == 0) LOG(WARNING) << "no snapshot from memory: " << snapshot.status().message();
    return "";
  }
  if (!snapshot->has_value() || (durable.has_value() && **snapshot <= *durable)) return "";
  const absl::StatusOr<std::optional<std::string>> location = memory_->Resume(state_, saved_data_);
  if (location.ok()) return location->value_or("");
  const absl::Status status = location.status();
  if (state_.rank == 0) LOG(WARNING) << "not from memory: " << status.message();
  if (durable.has_value()) return "";
  // Nothing can be loaded over what it has left in the state, so the next start begins anew.
  if (state_.rank == 0) options_.memory->DeleteTree((*snapshot)->ToString()).IgnoreError();
  return Annotate(status, "the snapshot in memory is damaged and there is no checkpoint yet");
}

namespace {

constexpr absl::string_view kPermit =
    "keep that value, start a new run (another run_name, or autoresume: false), or permit it by resume_changes: [";

}  // namespace

bool Trainer::MayChange(absl::string_view setting) const {
  return options_.may_change != nullptr && options_.may_change(setting);
}

absl::Status Trainer::CheckSeed() const {
  if (saved_data_.seed == static_cast<int64_t>(state_.seed) || MayChange("seed")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("seed: ", state_.seed, ", but checkpoint ", resumed_from_,
                                                 " was trained with ", saved_data_.seed,
                                                 ", and the order of samples depends on it; ", kPermit, "seed]"));
}

// With another batch size, dataset or seed, the epoch continues after as many samples as were seen of it.
void Trainer::KeepPlaceInEpoch(int64_t global_batch, int64_t batches_per_epoch) {
  Timestamp& now = state_.timestamp;
  now.batch_in_epoch = std::min(now.sample_in_epoch / global_batch, batches_per_epoch - 1);
}

absl::Status Trainer::Start() {
  RETURN_IF_ERROR(checkpoints_->Open(state_));
  for (std::optional<std::string> resumed; !resumed.has_value();) {
    ASSIGN_OR_RETURN(resumed, ResumeFromMemory());
    if (resumed->empty()) {
      ASSIGN_OR_RETURN(resumed,
                       // nullopt means that it was damaged; there may be an older one.
                       checkpoints_->Resume(state_, saved_data_));
    }
    resumed_from_ = resumed.value_or("");
  }
  own_history_ = !resumed_from_.empty();
  if (own_history_) return CheckSeed();
  ASSIGN_OR_RETURN(const std::string loaded, checkpoints_->LoadFrom(options_.load, state_, saved_data_));
  if (loaded.empty()) return absl::OkStatus();
  if (state_.rank == 0) LOG(INFO) << "loaded " << loaded;
  if (saved_data_.global_train_batch_size == 0) return absl::OkStatus();  // weights only
  resumed_from_ = loaded;
  // The order of samples stays as it was.
  if (saved_data_.seed != static_cast<int64_t>(state_.seed)) {
    LOG(WARNING) << "seed: " << state_.seed << " gives way to that of " << loaded << ", " << saved_data_.seed;
    state_.seed = static_cast<uint64_t>(saved_data_.seed);
  }
  return absl::OkStatus();
}

// Like the global batch size, the number of virtual shards is part of what the run computes.
absl::StatusOr<int> Trainer::SettleVirtualShards() const {
  const int64_t wanted = options_.virtual_shards, saved = resumed_from_.empty() ? 0 : saved_data_.virtual_shards;
  if (wanted == 0) return 0;
  if (saved > 0 && wanted > 0 && saved != wanted && !MayChange("virtual_shards")) {
    return absl::InvalidArgumentError(absl::StrCat("virtual_shards: ", wanted, ", but checkpoint ", resumed_from_,
                                                   " was trained with ", saved, "; ", kPermit, "virtual_shards]"));
  }
  const int64_t shards = wanted > 0 ? wanted : saved > 0 ? saved : DefaultVirtualShards(state_.world_size);
  RETURN_IF_ERROR(
      ValidateVirtualShards(static_cast<int>(std::min<int64_t>(shards, 1 << 20)), parallel_->Place().degrees));
  return static_cast<int>(shards);
}

// The global batch size is fixed at the first launch and stays for the life of the run, whatever the number of ranks
// is.
absl::Status Trainer::BuildData() {
  ASSIGN_OR_RETURN(const int virtual_shards, SettleVirtualShards());
  const TrainDataOptions& train = options_.train;
  const bool resumed = !resumed_from_.empty();
  const int64_t configured = train.global_train_batch_size;  // 0: unset
  const bool other_batch = resumed && configured > 0 && configured != saved_data_.global_train_batch_size;
  if (other_batch && !MayChange("global_train_batch_size")) {
    return absl::InvalidArgumentError(
        absl::StrCat("global_train_batch_size: ", configured, ", but checkpoint ", resumed_from_, " was trained with ",
                     saved_data_.global_train_batch_size, "; ", kPermit, "global_train_batch_size]"));
  }
  const bool other_data = resumed && saved_data_.dataset_size != train.dataset->size();
  if (other_data && !MayChange("train_dataloader")) {
    return absl::InvalidArgumentError(absl::StrCat("train_dataloader: the dataset has ", train.dataset->size(),
                                                   " samples, but checkpoint ", resumed_from_, " was trained on ",
                                                   saved_data_.dataset_size, "; ", kPermit, "train_dataloader]"));
  }
  int64_t global_batch = resumed && !other_batch ? saved_data_.global_train_batch_size : configured;
  if (global_batch == 0) global_batch = train.device_train_batch_size * state_.data_ranks;
  const SavedDataSettings settings{global_batch, train.dataset->size(), static_cast<int64_t>(state_.seed),
                                   virtual_shards, options_.configuration};
  saved_data_ = settings;
  checkpoints_->SetDataSettings(settings);
  for (CheckpointSaver* saver : savers_) saver->SetDataSettings(settings);
  DataLoader::Options loader;
  loader.label = train.label;
  loader.global_batch_size = global_batch;
  loader.shuffle = train.shuffle;
  loader.drop_last = train.drop_last;
  loader.seed = state_.seed;
  loader.rank = state_.data_rank;
  loader.world_size = state_.data_ranks;
  loader.subset_num_batches = train.train_subset_num_batches;
  DataLoader::Options of_training = loader;
  if (virtual_shards > 0) {
    of_training.share = [place = parallel_->Place(), virtual_shards,
                         microbatch = state_.device_train_microbatch_size](int64_t count) {
      return SamplesOf(place, NumLeaves(count, virtual_shards, microbatch), count);
    };
  }
  train_loader_ = std::make_shared<DataLoader>(train.dataset, of_training);
  train_batches_ = std::make_unique<Prefetcher>(train_loader_, train.prefetch);
  state_.batches_per_epoch = train_loader_->batches_per_epoch();
  if (other_batch || other_data) KeepPlaceInEpoch(global_batch, state_.batches_per_epoch);
  if (state_.auto_microbatch) {
    state_.auto_microbatch->LimitTo((global_batch + state_.data_ranks - 1) / state_.data_ranks);
    state_.device_train_microbatch_size = state_.auto_microbatch->size();
  }
  return BuildEvaluators(loader);
}

absl::Status Trainer::BuildEvaluators(DataLoader::Options loader) {
  for (const EvaluatorOptions& options : options_.evaluators) {
    loader.label = options.label;
    loader.global_batch_size = options.batch_size * state_.data_ranks;
    loader.shuffle = loader.drop_last = false;
    loader.subset_num_batches = options.subset_num_batches;
    Evaluator evaluator;
    evaluator.label = options.label;
    evaluator.loader = std::make_shared<DataLoader>(options.dataset, loader);
    evaluator.batches = std::make_unique<Prefetcher>(evaluator.loader, options.prefetch, /*num_epochs=*/1);
    ASSIGN_OR_RETURN(evaluator.metrics, SelectMetrics(state_.model->metrics(/*is_train=*/false), options.metric_names));
    evaluator.eval_interval = options.eval_interval;
    evaluator.device_eval_microbatch_size = options.device_eval_microbatch_size;
    evaluators_.push_back(std::move(evaluator));
  }
  return absl::OkStatus();
}

}  // namespace composer

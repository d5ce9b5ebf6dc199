// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/schedule/seq_length_warmup.h"

#include <torch/types.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

constexpr char kAttentionMask[] = "attention_mask";

// Calls fn for each tensor of the batch, by name.
void ForEachTensor(Batch& batch, const std::function<void(const std::string& name, at::Tensor& tensor)>& fn) {
  fn("inputs", batch.inputs);
  if (batch.targets.defined()) fn("targets", batch.targets);
  for (auto& [name, tensor] : batch.extra) fn(name, tensor);
}

void Truncate(Batch& batch, int64_t length, const at::Tensor& ends) {
  ForEachTensor(batch, [&](const std::string& /*name*/, at::Tensor& tensor) {
    at::Tensor cut = tensor.slice(1, 0, length).contiguous();
    if (ends.defined()) {
      const at::Tensor rows = at::arange(tensor.size(0), ends.options());
      const at::Tensor last = tensor.index({rows, ends});
      cut = cut.clone().index_put_({rows, ends.clamp_max(length - 1)}, last);
    }
    tensor = cut;
  });
}

// Returns the index of the last token that attention_mask has of each sequence.
at::Tensor EndsOf(const Batch& batch) {
  const auto mask = batch.extra.find(kAttentionMask);
  TORCH_CHECK_VALUE(mask != batch.extra.end(),
                    "seq_length_warmup: preserve_end_of_sequence needs an attention_mask in the batch");
  return mask->second.sum(1).to(at::kLong) - 1;
}

void CutIntoRows(Batch& batch, int64_t length) {
  const int64_t rows = batch.inputs.numel() / length;
  const auto shape = batch.inputs.sizes().vec();
  ForEachTensor(batch, [&](const std::string& name, at::Tensor& tensor) {
    TORCH_CHECK_VALUE(tensor.sizes() == shape, "seq_length_warmup: truncate: false needs tensors of one shape, `", name,
                      "` has ", tensor.sizes(), " and the inputs ", shape);
    tensor = tensor.reshape({-1}).slice(0, 0, rows * length).view({rows, length});
  });
}

}  // namespace

absl::Status Validate(const SeqLengthWarmupOptions& options) {
  const auto refuse = [](absl::string_view field, auto value, absl::string_view range) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", it must be ", range));
  };
  if (!(options.duration >= 0 && options.duration <= 1)) return refuse("duration", options.duration, "between 0 and 1");
  if (options.min_seq_length < 1) return refuse("min_seq_length", options.min_seq_length, "at least 1");
  if (options.max_seq_length < options.min_seq_length)
    return refuse("max_seq_length", options.max_seq_length,
                  absl::StrCat("at least min_seq_length, ", options.min_seq_length));
  if (options.step_size < 1) return refuse("step_size", options.step_size, "at least 1");
  if (options.preserve_end_of_sequence && !options.truncate)
    return refuse("preserve_end_of_sequence", "true", "false with truncate: false");
  return absl::OkStatus();
}

int64_t WarmupLength(const SeqLengthWarmupOptions& options, int64_t batch, int64_t batches) {
  const auto warmup = static_cast<int64_t>(static_cast<double>(batches) * options.duration);
  const int64_t updates = (options.max_seq_length - options.min_seq_length) / options.step_size;
  if (warmup == 0) return options.max_seq_length;
  if (updates == 0) return batch < warmup ? options.min_seq_length : options.max_seq_length;
  const int64_t every = warmup / updates;
  const int64_t done = every > 0 ? batch / every : batch * updates / warmup;
  const int64_t length = options.min_seq_length + options.step_size * done;
  return std::min(length, options.max_seq_length);
}

void SetBatchSequenceLength(Batch& batch, int64_t length, bool truncate, bool preserve_end_of_sequence) {
  TORCH_CHECK_VALUE(batch.inputs.defined(), "seq_length_warmup: it needs inputs [B, T], they are missing");
  ForEachTensor(batch, [&](const std::string& name, at::Tensor& tensor) {
    TORCH_CHECK_VALUE(tensor.dim() >= 2, "seq_length_warmup: it needs sequences [B, T], `", name, "` has shape ",
                      tensor.sizes());
  });
  if (length >= batch.inputs.size(1)) return;
  const bool has_tokens = batch.num_tokens > 0;
  if (truncate) {
    Truncate(batch, length, preserve_end_of_sequence ? EndsOf(batch) : at::Tensor());
  } else {
    CutIntoRows(batch, length);
  }
  batch.num_loss_tokens = -1;
  if (has_tokens) batch.num_tokens = batch.inputs.numel();
}

absl::Status SeqLengthWarmup::Apply(Event event, State& state, Logger& logger) {
  const Time& duration = state.max_duration;
  const bool epochs = duration.unit() == TimeUnit::kEpoch;
  if (event == Event::kInit) {
    if (epochs || duration.unit() == TimeUnit::kBatch) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("seq_length_warmup: max_duration: ", duration.ToString(),
                                                   ", it must be in batches (ba) or epochs (ep)"));
  }
  const int64_t batches = epochs ? duration.count() * state.clock.batches_per_epoch : duration.count();
  const int64_t length = WarmupLength(options_, state.timestamp.batch, batches);
  if (state.batch.num_samples > 0)
    SetBatchSequenceLength(state.batch, length, options_.truncate, options_.preserve_end_of_sequence);
  logger.Log("seq_length_warmup/curr_seq_len", static_cast<double>(length));
  logger.Log("seq_length_warmup/curr_bs",
             state.batch.num_samples > 0 ? static_cast<double>(state.batch.inputs.size(0)) : 0);
  return absl::OkStatus();
}

}  // namespace composer

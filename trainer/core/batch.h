// This header defines the batch: what a data loader yields and what a model takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// Data of a type of one's own: nested maps, graphs, boxes. It is immutable; the methods return another. Threads: any
// number at a time.
class BatchData {
 public:
  virtual ~BatchData() = default;
  // Returns these samples, in this order; each index is at least 0 and below the number of samples.
  virtual std::shared_ptr<const BatchData> Select(const std::vector<int64_t>& samples) const = 0;
  virtual std::shared_ptr<const BatchData> To(at::Device device) const = 0;
};

// B is the number of this rank's samples. B may be 0: a rank without a share of a small last batch still takes part in
// the step.
struct Batch {
  at::Tensor inputs;                        // [B, *]
  at::Tensor targets;                       // [B, *]
  std::map<std::string, at::Tensor> extra;  // [B, *] by name: "attention_mask", "token_type_ids"; usually empty
  // [B] by name: what has no common shape or is text. A model, a collation or an algorithm knows what is in them.
  std::map<std::string, std::vector<at::Tensor>> ragged;
  std::map<std::string, std::vector<std::string>> texts;
  std::shared_ptr<const BatchData> data;  // null: none
  std::vector<int64_t> sample_ids;        // [B] indices into the dataset
  int64_t num_samples = 0;                // B
  int64_t num_tokens = 0;                 // 0 when the data has none
  // The loss is a mean over this many tokens (neither padding nor masked); -1 means that they were not counted,
  // CountLossTokens then counts them from the targets.
  int64_t num_loss_tokens = -1;

  // Returns whether each sample has an id; not when an algorithm added or removed samples without their ids.
  bool has_sample_ids() const { return num_samples > 0 && static_cast<int64_t>(sample_ids.size()) == num_samples; }
  // Gets or sets a tensor by its key: "inputs", "targets", or a name in `extra`. Get throws c10::ValueError that lists
  // the keys. Source: mosaicml composer/core/state.py, batch_get_item().
  const at::Tensor& Get(absl::string_view key) const;
  void Set(absl::string_view key, at::Tensor tensor);
  // Returns rows [begin, end) as views. num_tokens is scaled with the rows; loss tokens are counted again when needed.
  Batch Slice(int64_t begin, int64_t end) const;
  // Returns these rows, in this order, as copies; counts as in Slice.
  Batch Select(const std::vector<int64_t>& rows) const;
  // Returns the batch on another device, or itself if it is already there. Copies from pinned memory do not block.
  Batch To(at::Device device) const;
};

// Returns num_loss_tokens if it is set, else the number of targets that are not -100. Call it before the batch moves to
// a GPU, where it would block. Throws c10::ValueError when the targets are not integers, since then they cannot be
// counted.
int64_t CountLossTokens(const Batch& batch);

// The rows of texts that a batch may have, [B, T], and the masks of their padding.
struct TextKey {
  const char* tokens;
  const char* mask;
};
inline constexpr TextKey kTextKeys[] = {
    {"inputs", "attention_mask"}, {"positives", "positives_mask"}, {"negatives", "negatives_mask"}};

}  // namespace composer

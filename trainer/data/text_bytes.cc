// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/text_bytes.h"

#include <torch/types.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/gzip_file.h"

namespace composer {
namespace {

constexpr int64_t kMaxBytes = int64_t{4} << 30;

class TextBytes final : public Dataset {
 public:
  TextBytes(std::string text, int64_t context) : text_(std::move(text)), context_(context) {}

  int64_t size() const override { return (static_cast<int64_t>(text_.size()) - 1) / context_; }

  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch;
    batch.num_samples = static_cast<int64_t>(indices.size());
    batch.num_tokens = batch.num_samples * context_;
    batch.inputs = torch::empty({batch.num_samples, context_}, torch::kInt64);
    batch.targets = torch::empty({batch.num_samples, context_}, torch::kInt64);
    int64_t* input = batch.inputs.mutable_data_ptr<int64_t>();
    int64_t* target = batch.targets.mutable_data_ptr<int64_t>();
    for (const int64_t index : indices) {
      TORCH_CHECK_INDEX(0 <= index && index < size(), "sample ", index, " of ", size());
      const auto* bytes = reinterpret_cast<const uint8_t*>(text_.data()) + index * context_;
      for (int64_t i = 0; i < context_; ++i) input[i] = bytes[i];
      for (int64_t i = 0; i < context_; ++i) target[i] = bytes[i + 1];
      input += context_;
      target += context_;
    }
    return batch;
  }

 private:
  std::string text_;
  int64_t context_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> MakeTextBytes(std::string text, const TextBytesOptions& options) {
  if (options.context < 1) {
    return absl::InvalidArgumentError(absl::StrCat("context: must be at least 1, got ", options.context));
  }
  if (!(options.eval_fraction >= 0 && options.eval_fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("eval_fraction: must be from 0 to below 1, got ", options.eval_fraction));
  }
  const auto eval_bytes = static_cast<size_t>(static_cast<double>(text.size()) * options.eval_fraction);
  const bool train = options.split == DataSplit::kTrain;
  if (train) {
    text.resize(text.size() - eval_bytes);
  } else {
    text.erase(0, text.size() - eval_bytes);
  }
  if (static_cast<int64_t>(text.size()) < options.context + 1) {
    return absl::InvalidArgumentError(absl::StrCat("the ", train ? "training" : "evaluation", " part of the text has ",
                                                   text.size(),
                                                   " bytes; one sample needs context + 1 = ", options.context + 1));
  }
  text.shrink_to_fit();
  return std::make_shared<const TextBytes>(std::move(text), options.context);
}

absl::StatusOr<std::shared_ptr<const Dataset>> LoadTextBytes(const TextBytesOptions& options) {
  std::string text;
  for (const std::string& path : options.paths) {
    ASSIGN_OR_RETURN(const std::string part, ReadMaybeGzipFile(path, kMaxBytes - static_cast<int64_t>(text.size())));
    text += part;
  }
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = MakeTextBytes(std::move(text), options);
  if (!dataset.ok() && !options.paths.empty()) return Annotate(dataset.status(), options.paths.front());
  return dataset;
}

}  // namespace composer

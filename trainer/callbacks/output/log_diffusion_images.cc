// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/log_diffusion_images.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/png.h"
#include "base/status_macros.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/tools/weight_files.h"
#include "trainer/callbacks/output/image_tensors.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr char kTextTensor[] = "encoder_hidden_states", kNoTextTensor[] = "negative_encoder_hidden_states";
constexpr char kLabelTensor[] = "class_labels";
constexpr int64_t kMostPictures = 4096;

// Puts [N, C, H, W] side by side in a square, [1, C, rows * H, columns * W]; places without a picture are black.
at::Tensor InRows(const at::Tensor& pictures) {
  const int64_t count = pictures.size(0), channels = pictures.size(1), height = pictures.size(2);
  const int64_t width = pictures.size(3);
  const auto columns = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t rows = (count + columns - 1) / columns;
  const at::Tensor all = torch::zeros({rows * columns, channels, height, width});
  all.slice(0, 0, count).copy_(pictures);
  return all.view({rows, columns, channels, height, width})
      .permute({2, 0, 3, 1, 4})
      .reshape({1, channels, rows * height, columns * width});
}

absl::StatusOr<std::string> SafetensorsOf(const at::Tensor& samples) {
  std::vector<SafetensorsEntry> entries = {{"samples", "F32", samples.sizes().vec()}};
  ASSIGN_OR_RETURN(std::string file, LayOutSafetensors(&entries));
  file.append(static_cast<const char*>(samples.const_data_ptr()), samples.nbytes());
  return file;
}

absl::Status WriteSamples(const at::Tensor& samples, const State& state, Logger& logger) {
  if (state.identity.run_folder.empty())
    return absl::FailedPreconditionError("log_diffusion_images needs a run_folder to write to");
  const bool visible = samples.size(1) == 1 || samples.size(1) == 3;
  const std::string name = absl::StrCat("images/sampled-ba", state.timestamp.batch, visible ? ".png" : ".safetensors");
  const std::string path = JoinPath(state.identity.run_folder, name);
  std::string file;
  if (visible) {
    const at::Tensor bytes = samples.add(1).mul(127.5).round().clamp(0, 255).to(at::kByte);
    const std::vector<Image> images = ImagesOf(bytes, bytes.size(0), /*channels_last=*/false);
    logger.LogImages(ImageRecord{state.timestamp, "Images/Sampled", images});
    const Image rows = ImagesOf(InRows(bytes.to(at::kFloat)).to(at::kByte), 1, false)[0];
    ASSIGN_OR_RETURN(file, EncodePng({rows.height, rows.width, rows.channels, rows.pixels}));
  } else {
    ASSIGN_OR_RETURN(file, SafetensorsOf(samples));
  }
  RETURN_IF_ERROR(MakeDirs(JoinPath(state.identity.run_folder, "images")));
  RETURN_IF_ERROR(AtomicWriteFile(path, file));
  logger.LogFile(name, path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DiffusionCondition> LogDiffusionImages::ReadCondition(int64_t* count) const {
  DiffusionCondition condition;
  if (!options_.conditions.empty()) {
    ASSIGN_OR_RETURN(const ImportedWeights file, ReadWeights(options_.conditions, ""));
    for (const auto& [name, tensor] : file.tensors) {
      if (name == kTextTensor) condition.text = tensor.to(at::kFloat);
      if (name == kNoTextTensor) condition.no_text = tensor.to(at::kFloat);
      if (name == kLabelTensor) condition.labels = tensor.to(at::kLong);
    }
  }
  if (!options_.class_labels.empty()) condition.labels = torch::tensor(options_.class_labels, torch::kLong);
  *count = !options_.prompts.empty()    ? static_cast<int64_t>(options_.prompts.size())
           : condition.text.defined()   ? condition.text.size(0)
           : condition.labels.defined() ? condition.labels.numel()
                                        : options_.num_images;
  const bool fits =
      *count >= 1 && *count <= kMostPictures &&
      (!condition.labels.defined() || (condition.labels.dim() == 1 && condition.labels.numel() == *count));
  if (fits) return condition;
  return absl::InvalidArgumentError(
      absl::StrCat("log_diffusion_images: there must be 1 to ", kMostPictures,
                   " pictures, with a class_label for each text if for any, but there are ", *count, " and ",
                   condition.labels.defined() ? condition.labels.numel() : 0));
}

DiffusionCondition LogDiffusionImages::EncodePrompts(DiffusionModel& model, const State& state) const {
  TORCH_CHECK_VALUE(state.tokenizer != nullptr, "log_diffusion_images: prompts need a tokenizer: give the job ",
                    "`tokenizer`");
  const auto encode = [&](const std::vector<std::string>& texts) {
    const PaddingOptions padding = {.max_length = model.text_tokens(), .to_max_length = true};
    const at::Tensor tokens = state.tokenizer->EncodeBatch(texts, padding).inputs.to(state.identity.device);
    return EncodeForSampling(model, tokens, state.sharding);
  };
  DiffusionCondition condition;
  condition.text = encode(options_.prompts);
  if (options_.negative_prompt) condition.no_text = encode({*options_.negative_prompt});
  return condition;
}

absl::Status LogDiffusionImages::Run(Event /*event*/, State& state, Logger& logger) {
  if (state.timestamp.batch == std::exchange(last_batch_, state.timestamp.batch)) return absl::OkStatus();
  auto* const model = dynamic_cast<DiffusionModel*>(state.model.get());
  if (model == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("log_diffusion_images: ", state.model->name(),
                                                   " is not a diffusion model; take it out of the callbacks, or use "
                                                   "diffusion_unet"));
  int64_t count = 0;
  ASSIGN_OR_RETURN(const DiffusionCondition condition, ReadCondition(&count));
  return CatchTorch([&] {
    const at::Device device = state.identity.device;
    std::vector<int64_t> shape = model->sample_shape();
    shape.insert(shape.begin(), count);
    auto generator = at::detail::createCPUGenerator(options_.sampling.seed);
    const at::Tensor noise = torch::empty(shape, torch::kFloat).normal_(0, 1, generator);
    const InferenceWeightsScope weights(state.algorithms);
    const bool was_training = model->is_training();
    model->eval();
    const absl::Cleanup restore = [&] { model->train(was_training); };
    const auto placed = [&](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(device) : tensor; };
    DiffusionCondition from = {placed(condition.text), placed(condition.labels), placed(condition.no_text)};
    if (!options_.prompts.empty()) {
      from = EncodePrompts(*model, state);
      from.labels = placed(condition.labels);
    }
    const DiffusionCondition given = model->CheckedCondition(from, count);
    const at::Tensor samples = SamplePictures(*model, noise.to(device), given, options_.sampling, state.sharding);
    if (state.identity.rank == 0) ThrowIfError(WriteSamples(samples.to(at::kCPU).contiguous(), state, logger));
  });
}

}  // namespace composer

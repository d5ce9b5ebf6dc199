// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/diffusion_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/core/random.h"
#include "trainer/metrics/squared_error.h"

namespace composer {
namespace {

constexpr uint64_t kEvaluationSeed = 0x9e3779b9, kLatentSeed = 0x7f4a7c15;

struct DrawnNoise {
  at::Tensor steps, noise;
};

DrawnNoise DrawForTraining(const at::Tensor& pictures, int64_t steps) {
  return {torch::randint(steps, {pictures.size(0)}, torch::dtype(at::kLong).device(pictures.device())),
          torch::randn_like(pictures)};
}

// The same for a sample in every evaluation, whatever batch and rank it is in.
DrawnNoise DrawForEvaluation(const at::Tensor& pictures, const std::vector<int64_t>& ids, int64_t steps) {
  const int64_t samples = pictures.size(0);
  DrawnNoise drawn = {torch::empty({samples}, torch::kLong), torch::empty(pictures.sizes(), torch::kFloat)};
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t id = ids.empty() ? i : ids[static_cast<size_t>(i)];
    auto generator = at::detail::createCPUGenerator(MixSeed(kEvaluationSeed, static_cast<uint64_t>(id), 0));
    drawn.steps[i].random_(0, steps, generator);
    drawn.noise[i].normal_(0, 1, generator);
  }
  return {drawn.steps.to(pictures.device()), drawn.noise.to(pictures.options())};
}

// Noise of an evaluation's latents, in the same way.
at::Tensor DrawLatentNoise(const at::Tensor& latents, const std::vector<int64_t>& ids) {
  const at::Tensor noise = torch::empty(latents.sizes(), torch::kFloat);
  for (int64_t i = 0; i < latents.size(0); ++i) {
    const int64_t id = ids.empty() ? i : ids[static_cast<size_t>(i)];
    auto generator = at::detail::createCPUGenerator(MixSeed(kLatentSeed, static_cast<uint64_t>(id), 0));
    noise[i].normal_(0, 1, generator);
  }
  return noise.to(latents.options());
}

std::vector<int64_t> IdsOf(const Batch& batch) {
  return batch.has_sample_ids() ? batch.sample_ids : std::vector<int64_t>();
}

at::Tensor FindExtra(const Batch& batch, const char* name) {
  const auto found = batch.extra.find(name);
  return found == batch.extra.end() ? at::Tensor() : found->second;
}

at::Tensor SquaredErrors(const Outputs& outputs) {
  return (outputs["outputs"].to(at::kFloat) - outputs["target"].to(at::kFloat)).square();
}

}  // namespace

DiffusionModel::DiffusionModel(const DiffusionOptions& options) : options_(options), schedule_(options.schedule) {
  TORCH_CHECK_VALUE(options.scaling_factor > 0, "model.scaling_factor: ", options.scaling_factor, " must be above 0");
  TORCH_CHECK_VALUE(options.conditioning_dropout >= 0 && options.conditioning_dropout < 1,
                    "model.conditioning_dropout: ", options.conditioning_dropout, " must be at least 0 and below 1");
}

void DiffusionModel::AddEncoders(const DiffusionEncoders& encoders) {
  encoders_ = encoders;
  if (encoders_.vae != nullptr) {
    const AutoencoderOptions& vae = encoders_.vae->options();
    TORCH_CHECK_VALUE(vae.latent_channels == sample_shape()[0], "model: the vae's latents have ", vae.latent_channels,
                      " channels, but the U-Net takes ", sample_shape()[0]);
    register_module("vae", encoders_.vae);
    if (!options_.scaled_inputs) encoder_flops_ += encoders_.vae->encoding_flops();
  }
  if (encoders_.text_encoder != nullptr) {
    register_module("text_encoder", encoders_.text_encoder);
    if (!options_.scaled_inputs) encoder_flops_ += encoders_.text_encoder->flops_per_sample() / 3;
  }
  for (const std::shared_ptr<torch::nn::Module>& part : {std::shared_ptr<torch::nn::Module>(encoders_.vae),
                                                         std::shared_ptr<torch::nn::Module>(encoders_.text_encoder)}) {
    if (part == nullptr) continue;
    for (const at::Tensor& param : part->parameters()) param.set_requires_grad(false);
  }
  train(is_training());
}

void DiffusionModel::train(bool on) {
  Model::train(on);
  if (encoders_.vae != nullptr) encoders_.vae->eval();
  if (encoders_.text_encoder != nullptr) encoders_.text_encoder->eval();
}

at::Tensor DiffusionModel::DecodeLatents(const at::Tensor& latents) {
  const torch::NoGradGuard no_grad;
  return encoders_.vae == nullptr ? latents : encoders_.vae->Decode(latents);
}

at::Tensor DiffusionModel::EncodeTokens(const at::Tensor& tokens) {
  TORCH_CHECK_VALUE(encoders_.text_encoder != nullptr, "model: it has no text_encoder for tokens; texts must be ",
                    "encoder_hidden_states, or the model stable_diffusion_2 with a `path`");
  const torch::NoGradGuard no_grad;
  Batch batch;
  batch.num_samples = tokens.size(0);
  batch.inputs = tokens;
  return encoders_.text_encoder->forward(batch).tensor();
}

DiffusionCondition DiffusionModel::ConditionOf(const Batch& batch) {
  const at::Tensor labels = FindExtra(batch, "class_labels"), tokens = FindExtra(batch, "input_ids");
  at::Tensor text = FindExtra(batch, "encoder_hidden_states");
  if (!text.defined() && encoders_.text_encoder != nullptr) {
    TORCH_CHECK_VALUE(tokens.defined() && tokens.dim() == 2 && tokens.size(0) == batch.inputs.size(0),
                      "model: the data must have input_ids, int64 [B, T], or encoder_hidden_states; add the transform ",
                      "tokenize with `to: input_ids` and `to_length: ", text_tokens(), "`");
    text = EncodeTokens(tokens);
  }
  if (text.defined()) text = text.to(at::kFloat);
  return CheckedCondition({text, labels.defined() ? labels : batch.targets}, batch.inputs.size(0));
}

at::Tensor DiffusionModel::PicturesOf(const Batch& batch) {
  const double factor = options_.scaling_factor;
  const bool is_latent = encoders_.vae == nullptr ||
                         (options_.scaled_inputs && batch.inputs.size(1) == encoders_.vae->options().latent_channels);
  if (is_latent) {
    const at::Tensor inputs = batch.inputs.to(at::kFloat);  // latents are often stored in 16 bits
    return factor == 1 || options_.scaled_inputs ? inputs : inputs * factor;
  }
  const torch::NoGradGuard no_grad;
  const LatentMoments moments = encoders_.vae->Encode(batch.inputs);
  at::Tensor noise = FindExtra(batch, "latent_noise");
  if (!noise.defined())
    noise = is_training() ? torch::randn_like(moments.mean) : DrawLatentNoise(moments.mean, IdsOf(batch));
  return moments.Sample(noise).to(at::kFloat) * factor;
}

Outputs DiffusionModel::forward(const Batch& batch) {
  TORCH_CHECK_VALUE(batch.inputs.dim() == 4 && batch.inputs.is_floating_point(),
                    "model: it takes pictures or latents, ", "floats [B, channels, H, W], but the data's inputs are ",
                    batch.inputs.scalar_type(), " ", batch.inputs.sizes(),
                    batch.inputs.is_floating_point() ? "" : "; add the transform to_float");
  const at::Tensor pictures = PicturesOf(batch);
  const int64_t steps = options_.schedule.num_train_timesteps;
  DrawnNoise drawn =
      is_training() ? DrawForTraining(pictures, steps) : DrawForEvaluation(pictures, IdsOf(batch), steps);
  if (const auto given = batch.extra.find("timesteps"); given != batch.extra.end()) drawn.steps = given->second;
  if (const auto given = batch.extra.find("noise"); given != batch.extra.end()) drawn.noise = given->second;
  TORCH_CHECK_VALUE(drawn.noise.sizes() == pictures.sizes(), "noise: the data has ", drawn.noise.sizes(),
                    " for inputs ", pictures.sizes());
  DiffusionCondition condition = ConditionOf(batch);
  if (is_training() && options_.conditioning_dropout > 0) {
    const at::Tensor numbers = torch::rand({pictures.size(0)}, torch::dtype(at::kFloat).device(pictures.device()));
    condition = WithoutCondition(condition, numbers.lt(options_.conditioning_dropout));
  }
  const at::Tensor noised = schedule_.AddNoise(pictures, drawn.noise, drawn.steps);
  return Outputs(Outputs::Named{{"outputs", Denoise(noised, drawn.steps, condition)},
                                {"target", schedule_.Target(pictures, drawn.noise, drawn.steps)},
                                {"timesteps", drawn.steps}});
}

Loss DiffusionModel::loss(const Outputs& outputs, const Batch& /*batch*/) { return SquaredErrors(outputs).mean(); }

at::Tensor DiffusionModel::sample_losses(const Outputs& outputs, const Batch& /*batch*/) {
  return SquaredErrors(outputs).flatten(1).mean(1);
}

MetricList DiffusionModel::metrics(bool /*is_train*/) const {
  MetricList metrics;
  metrics.push_back(MakeTargetSquaredError());
  return metrics;
}

}  // namespace composer

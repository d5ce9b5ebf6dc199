// SPDX-License-Identifier: Apache-2.0
#include "job/models/diffusion_rows.h"

#include "base/file.h"
#include "trainer/models/hf/hf_diffusion.h"
#include "trainer/models/vision/conditional_unet.h"

namespace composer {
namespace {

constexpr IntRange kDiffusionCount = {.min = 1, .max = 1 << 16};
constexpr DoubleRange kDiffusionFraction = {.min = 0, .max = 0.99};

PredictionType PredictionOf(const std::string& name) {
  return name == "sample"         ? PredictionType::kSample
         : name == "v_prediction" ? PredictionType::kVelocity
                                  : PredictionType::kEpsilon;
}

NoiseScheduleOptions ReadNoiseSchedule(ConfigMap& config) {
  NoiseScheduleOptions options;
  options.num_train_timesteps =
      config.Int("num_train_timesteps", options.num_train_timesteps, {.min = 1, .max = 1000000});
  const std::string betas = config.Choice("beta_schedule", {"linear", "scaled_linear", "squaredcos_cap_v2"}, "linear");
  options.beta_schedule = betas == "scaled_linear"       ? BetaSchedule::kScaledLinear
                          : betas == "squaredcos_cap_v2" ? BetaSchedule::kSquaredCosine
                                                         : BetaSchedule::kLinear;
  options.beta_start = config.Double("beta_start", options.beta_start, {.min = 0});
  options.beta_end = config.Double("beta_end", options.beta_end, {.min = 0});
  options.rescale_betas_zero_snr = config.Bool("rescale_betas_zero_snr", options.rescale_betas_zero_snr);
  options.prediction_type =
      PredictionOf(config.Choice("prediction_type", {"epsilon", "sample", "v_prediction"}, "epsilon"));
  const std::string spacing = config.Choice("timestep_spacing", {"leading", "trailing", "linspace"}, "leading");
  options.timestep_spacing = spacing == "trailing"   ? TimestepSpacing::kTrailing
                             : spacing == "linspace" ? TimestepSpacing::kLinspace
                                                     : TimestepSpacing::kLeading;
  options.steps_offset = config.Int("steps_offset", options.steps_offset, {.min = 0, .max = 999999});
  options.set_alpha_to_one = config.Bool("set_alpha_to_one", options.set_alpha_to_one);
  options.clip_sample = config.Bool("clip_sample", options.clip_sample);
  options.clip_sample_range = config.Double("clip_sample_range", options.clip_sample_range, {.min = 0});
  return options;
}

ModelFactory ReadDiffusionUNet(ConfigMap config) {
  ConditionalUNetOptions options;
  options.in_channels = config.Int("in_channels", options.in_channels, kDiffusionCount);
  options.out_channels = config.Int("out_channels", options.out_channels, kDiffusionCount);
  options.sample_size = config.Int("sample_size", options.sample_size, kDiffusionCount);
  options.block_out_channels = config.IntList("block_out_channels", options.block_out_channels, kDiffusionCount);
  options.down_block_types = config.StringList("down_block_types", options.down_block_types);
  options.mid_block_type =
      config.Choice("mid_block_type", {"UNetMidBlock2DCrossAttn", "UNetMidBlock2D"}, options.mid_block_type);
  options.up_block_types = config.StringList("up_block_types", options.up_block_types);
  options.layers_per_block = config.Int("layers_per_block", options.layers_per_block, kDiffusionCount);
  options.transformer_layers_per_block =
      config.Int("transformer_layers_per_block", options.transformer_layers_per_block, kDiffusionCount);
  options.attention_head_dim = config.IntList("attention_head_dim", options.attention_head_dim, kDiffusionCount);
  options.cross_attention_dim = config.Int("cross_attention_dim", options.cross_attention_dim, kDiffusionCount);
  options.use_linear_projection = config.Bool("use_linear_projection", options.use_linear_projection);
  options.num_class_embeds =
      config.Int("num_class_embeds", options.num_class_embeds, {.min = 0, .max = kDiffusionCount.max});
  options.norm_num_groups = config.Int("norm_num_groups", options.norm_num_groups, kDiffusionCount);
  options.norm_eps = config.Double("norm_eps", options.norm_eps, {.min = 0});
  options.dropout = config.Double("dropout", options.dropout, kDiffusionFraction);
  options.flip_sin_to_cos = config.Bool("flip_sin_to_cos", options.flip_sin_to_cos);
  options.freq_shift = config.Double("freq_shift", options.freq_shift, {.min = 0});
  options.context_tokens = config.Int("context_tokens", options.context_tokens, kDiffusionCount);
  options.diffusion.scaling_factor = config.Double("scaling_factor", options.diffusion.scaling_factor, {.min = 0});
  options.diffusion.conditioning_dropout = config.Double("conditioning_dropout", 0, kDiffusionFraction);
  options.diffusion.schedule = ReadNoiseSchedule(config);
  return [options]() -> std::shared_ptr<Model> { return MakeConditionalUNet(options); };
}

AutoencoderOptions ReadAutoencoderOptions(ConfigMap& config) {
  AutoencoderOptions options;
  options.in_channels = config.Int("in_channels", options.in_channels, kDiffusionCount);
  options.out_channels = config.Int("out_channels", options.out_channels, kDiffusionCount);
  options.latent_channels = config.Int("latent_channels", options.latent_channels, kDiffusionCount);
  options.block_out_channels = config.IntList("block_out_channels", options.block_out_channels, kDiffusionCount);
  options.layers_per_block = config.Int("layers_per_block", options.layers_per_block, kDiffusionCount);
  options.norm_num_groups = config.Int("norm_num_groups", options.norm_num_groups, kDiffusionCount);
  options.scaling_factor = config.Double("scaling_factor", options.scaling_factor, {.min = 0});
  options.sample_size = config.Int("sample_size", options.sample_size, kDiffusionCount);
  return options;
}

ModelFactory ReadAutoencoder(ConfigMap config) {
  AutoencoderFolder folder;
  folder.path = config.String("path", "");
  folder.pretrained = config.Bool("pretrained", true);
  folder.kl_weight = config.Double("kl_weight", folder.kl_weight, {.min = 0});
  folder.encode_only = config.Bool("encode_only", false);
  AutoencoderOptions options = ReadAutoencoderOptions(config);
  if (!folder.path.empty()) {
    for (const char* key : {"in_channels", "out_channels", "latent_channels", "block_out_channels", "layers_per_block",
                            "norm_num_groups", "scaling_factor", "sample_size"}) {
      if (config.Has(key)) config.Reject(key, "config.json in `path` says it; leave it out");
    }
    return [folder]() -> std::shared_ptr<Model> { return LoadAutoencoder(folder); };
  }
  options.kl_weight = folder.kl_weight;
  options.encode_only = folder.encode_only;
  return [options]() -> std::shared_ptr<Model> { return std::make_shared<Autoencoder>(options); };
}

ModelFactory ReadStableDiffusion(ConfigMap config) {
  StableDiffusionOptions options;
  options.path = config.String("path", "");
  options.pretrained = config.Bool("pretrained", true);
  options.precomputed_latents = config.Bool("precomputed_latents", false);
  const std::string type = config.Choice("prediction_type", {"auto", "epsilon", "sample", "v_prediction"}, "auto");
  if (type != "auto") options.prediction_type = PredictionOf(type);
  options.rescale_betas_zero_snr = config.Bool("rescale_betas_zero_snr", false);
  options.conditioning_dropout = config.Double("conditioning_dropout", 0, kDiffusionFraction);
  options.sample_size = config.Int("sample_size", 0, {.min = 0, .max = kDiffusionCount.max});
  if (options.path.empty() && !options.precomputed_latents)
    config.Reject("path",
                  "required: a folder with unet, vae, text_encoder and scheduler; or set precomputed_latents: true for "
                  "latents that are in the data");
  return [options]() -> std::shared_ptr<Model> { return LoadStableDiffusion(options); };
}

}  // namespace

std::vector<ModelRow> DiffusionModelRows() {
  return {{"autoencoder_kl", ReadAutoencoder},
          {"diffusion_unet", ReadDiffusionUNet},
          {"stable_diffusion_2", ReadStableDiffusion}};
}

}  // namespace composer

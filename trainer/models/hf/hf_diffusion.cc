// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/hf/hf_diffusion.h"

#include <torch/types.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/layers/undeferred_scope.h"
#include "trainer/models/hf/hf_model.h"
#include "trainer/models/hf/hf_weights.h"

namespace composer {
namespace {

constexpr char kDiffusionWeights[] = "diffusion_pytorch_model";

HfConfig OpenDiffusionConfig(const std::string& folder, const char* name = "config.json") {
  const std::string path = JoinPath(folder, name);
  const absl::StatusOr<std::string> text = ReadFile(path, int64_t{1} << 20);
  ThrowIfError(Annotate(text.status(), "model.path"));
  absl::StatusOr<HfConfig> config = HfConfig::Parse(*text);
  ThrowIfError(Annotate(config.status(), path));
  config->Ignore({"_class_name", "_diffusers_version"});
  return *std::move(config);
}

// Reads one with `read`; its errors say in which file.
template <typename Options>
Options ReadDiffusionConfig(const std::string& folder, Options (*read)(HfConfig&), const char* name = "config.json") {
  HfConfig config = OpenDiffusionConfig(folder, name);
  Options options;
  ThrowIfError(Annotate(CatchTorch([&] { options = read(config); }), JoinPath(folder, name)));
  return options;
}

void TakeDiffusionWeights(Model& model, const std::string& folder) {
  absl::StatusOr<HfWeights> weights = [&] {
    const UndeferredScope files;
    return FindHfWeights(folder, kDiffusionWeights);
  }();
  ThrowIfError(Annotate(weights.status(), "model.path"));
  for (auto& [name, tensor] : *weights) {
    if (!absl::StrContains(name, ".attentions.")) continue;
    name = absl::StrReplaceAll(
        name, {{".query.", ".to_q."}, {".key.", ".to_k."}, {".value.", ".to_v."}, {".proj_attn.", ".to_out.0."}});
  }
  ThrowIfError(Annotate(CatchTorch([&] { TakeHfWeights(model, *weights, {}); }), folder));
}

// Every entry must be the same known kind.
void OnlyBlocks(HfConfig& config, const char* field, const char* kind) {
  for (const std::string& type : config.Strings(field)) {
    if (type != kind)
      ThrowIfError(absl::InvalidArgumentError(
          absl::StrCat("config.json: `", field, "` has `", type, "`; supported is only ", kind)));
  }
}

std::vector<std::string> StringsOr(HfConfig& config, const char* field, const std::vector<std::string>& fallback) {
  return config.Has(field) ? config.Strings(field) : fallback;
}

// What diffusers' class has beyond Stable Diffusion 1 and 2.
void RefuseOtherUNets(HfConfig& config) {
  config.Only("act_fn", {"silu"});
  config.Only("resnet_time_scale_shift", {"default"});
  config.Only("time_embedding_type", {"positional"});
  config.Only("attention_type", {"default"});
  for (const char* field : {"center_input_sample", "dual_cross_attention", "only_cross_attention",
                            "resnet_skip_time_act", "class_embeddings_concat", "mid_block_only_cross_attention"})
    config.Only(field, {false});
  for (const char* field : {"mid_block_scale_factor", "resnet_out_scale_factor", "downsample_padding"})
    config.Only(field, {1, 1.0});
  for (const char* field : {"conv_in_kernel", "conv_out_kernel"}) config.Only(field, {3});
  for (const char* field : {"addition_embed_type", "class_embed_type", "cross_attention_norm", "encoder_hid_dim",
                            "encoder_hid_dim_type", "num_attention_heads", "reverse_transformer_layers_per_block",
                            "time_cond_proj_dim", "time_embedding_act_fn", "time_embedding_dim", "timestep_post_act"})
    config.Only(field, {nullptr});
  // Of parts that are refused above, and precision.
  config.Ignore({"addition_embed_type_num_heads", "addition_time_embed_dim", "projection_class_embeddings_input_dim",
                 "upcast_attention"});
}

}  // namespace

AutoencoderOptions ReadAutoencoderConfig(HfConfig& config) {
  AutoencoderOptions options;
  options.in_channels = config.Size("in_channels", options.in_channels);
  options.out_channels = config.Size("out_channels", options.out_channels);
  options.latent_channels = config.Size("latent_channels", options.latent_channels);
  options.block_out_channels = config.Sizes("block_out_channels", {64});
  options.layers_per_block = config.Size("layers_per_block", 1);
  options.norm_num_groups = config.Size("norm_num_groups", options.norm_num_groups);
  options.mid_block_add_attention = config.Bool("mid_block_add_attention", true);
  options.use_quant_conv = config.Bool("use_quant_conv", true);
  options.use_post_quant_conv = config.Bool("use_post_quant_conv", true);
  options.scaling_factor = config.Double("scaling_factor", options.scaling_factor, 1e-6, 1e6);
  options.sample_size = config.Size("sample_size", 32);
  OnlyBlocks(config, "down_block_types", "DownEncoderBlock2D");
  OnlyBlocks(config, "up_block_types", "UpDecoderBlock2D");
  config.Only("act_fn", {"silu"});
  for (const char* field : {"latents_mean", "latents_std", "shift_factor"}) config.Only(field, {nullptr});
  config.Ignore({"force_upcast"});
  config.Finish();
  return options;
}

ConditionalUNetOptions ReadUNetConfig(HfConfig& config) {
  ConditionalUNetOptions o;
  o.in_channels = config.Size("in_channels", o.in_channels);
  o.out_channels = config.Size("out_channels", o.out_channels);
  o.block_out_channels = config.Sizes("block_out_channels", o.block_out_channels);
  o.down_block_types = StringsOr(config, "down_block_types", o.down_block_types);
  o.up_block_types = StringsOr(config, "up_block_types", o.up_block_types);
  o.mid_block_type = config.String("mid_block_type", o.mid_block_type);
  o.layers_per_block = config.Size("layers_per_block", o.layers_per_block);
  o.transformer_layers_per_block = config.Size("transformer_layers_per_block", o.transformer_layers_per_block);
  o.attention_head_dim = config.Sizes("attention_head_dim", o.attention_head_dim);
  o.cross_attention_dim = config.Size("cross_attention_dim", o.cross_attention_dim);
  o.use_linear_projection = config.Bool("use_linear_projection", o.use_linear_projection);
  o.num_class_embeds = config.Int("num_class_embeds", 0, 0, 1 << 24);
  o.norm_num_groups = config.Size("norm_num_groups", o.norm_num_groups);
  o.norm_eps = config.Double("norm_eps", o.norm_eps, 0, 1);
  o.dropout = config.Double("dropout", o.dropout, 0, 0.99);
  o.flip_sin_to_cos = config.Bool("flip_sin_to_cos", o.flip_sin_to_cos);
  o.freq_shift = config.Double("freq_shift", o.freq_shift, 0, 1e6);
  o.sample_size = config.Size("sample_size", o.sample_size);
  RefuseOtherUNets(config);
  config.Finish();
  return o;
}

NoiseScheduleOptions ReadSchedulerConfig(HfConfig& config) {
  NoiseScheduleOptions o;
  o.num_train_timesteps = config.Int("num_train_timesteps", o.num_train_timesteps, 1, 1000000);
  config.Only("beta_schedule", {"linear", "scaled_linear", "squaredcos_cap_v2"});
  const std::string betas = config.String("beta_schedule", "linear");
  o.beta_schedule = betas == "scaled_linear"       ? BetaSchedule::kScaledLinear
                    : betas == "squaredcos_cap_v2" ? BetaSchedule::kSquaredCosine
                                                   : BetaSchedule::kLinear;
  o.beta_start = config.Double("beta_start", o.beta_start, 0, 1);
  o.beta_end = config.Double("beta_end", o.beta_end, 0, 1);
  o.rescale_betas_zero_snr = config.Bool("rescale_betas_zero_snr", o.rescale_betas_zero_snr);
  config.Only("prediction_type", {"epsilon", "sample", "v_prediction"});
  const std::string type = config.String("prediction_type", "epsilon");
  o.prediction_type = type == "sample"         ? PredictionType::kSample
                      : type == "v_prediction" ? PredictionType::kVelocity
                                               : PredictionType::kEpsilon;
  config.Only("timestep_spacing", {"leading", "trailing", "linspace"});
  const std::string spacing = config.String("timestep_spacing", "leading");
  o.timestep_spacing = spacing == "trailing"   ? TimestepSpacing::kTrailing
                       : spacing == "linspace" ? TimestepSpacing::kLinspace
                                               : TimestepSpacing::kLeading;
  o.steps_offset = config.Int("steps_offset", o.steps_offset, 0, 999999);
  o.set_alpha_to_one = config.Bool("set_alpha_to_one", o.set_alpha_to_one);
  // Schedulers of other classes than DDIM's and DDPM's do not clip, and do not say so.
  o.clip_sample = config.Bool("clip_sample", false);
  o.clip_sample_range = config.Double("clip_sample_range", o.clip_sample_range, 0, 1e6);
  config.Only("trained_betas", {nullptr});
  config.Only("thresholding", {false});
  config.Ignore({"dynamic_thresholding_ratio", "sample_max_value", "skip_prk_steps", "variance_type",
                 "interpolation_type", "use_karras_sigmas"});
  config.Finish();
  return o;
}

std::shared_ptr<Autoencoder> LoadAutoencoder(const AutoencoderFolder& folder) {
  const std::string path = AbsolutePath(folder.path);
  AutoencoderOptions options = ReadDiffusionConfig(path, ReadAutoencoderConfig);
  options.kl_weight = folder.kl_weight;
  options.encode_only = folder.encode_only;
  auto model = std::make_shared<Autoencoder>(options);
  if (folder.pretrained) TakeDiffusionWeights(*model, path);
  return model;
}

ConditionalUNetOptions StableDiffusion2UNet() {
  ConditionalUNetOptions options;
  options.cross_attention_dim = 1024;
  options.attention_head_dim = {5, 10, 20, 20};
  options.use_linear_projection = true;
  options.diffusion.scaling_factor = AutoencoderOptions{}.scaling_factor;
  options.diffusion.schedule = {.beta_schedule = BetaSchedule::kScaledLinear,
                                .beta_start = 0.00085,
                                .beta_end = 0.012,
                                .steps_offset = 1,
                                .set_alpha_to_one = false,
                                .clip_sample = false};
  return options;
}

std::shared_ptr<DiffusionModel> LoadStableDiffusion(const StableDiffusionOptions& options) {
  TORCH_CHECK_VALUE(!options.path.empty() || options.precomputed_latents, "model.path: required: a folder with unet, ",
                    "vae, text_encoder and scheduler; or precomputed_latents: true, for latents that are in the data");
  const std::string path = options.path.empty() ? "" : AbsolutePath(options.path);
  ConditionalUNetOptions unet = StableDiffusion2UNet();
  DiffusionEncoders encoders;
  if (!path.empty()) {
    unet = ReadDiffusionConfig(JoinPath(path, "unet"), ReadUNetConfig);
    unet.diffusion.schedule =
        ReadDiffusionConfig(JoinPath(path, "scheduler"), ReadSchedulerConfig, "scheduler_config.json");
  }
  if (options.sample_size > 0) unet.sample_size = options.sample_size;
  if (options.prediction_type) unet.diffusion.schedule.prediction_type = *options.prediction_type;
  unet.diffusion.schedule.rescale_betas_zero_snr |= options.rescale_betas_zero_snr;
  unet.diffusion.conditioning_dropout = options.conditioning_dropout;
  unet.diffusion.scaled_inputs = options.precomputed_latents;
  if (path.empty()) return MakeConditionalUNet(unet);
  AutoencoderOptions vae = ReadDiffusionConfig(JoinPath(path, "vae"), ReadAutoencoderConfig);
  unet.diffusion.scaling_factor = vae.scaling_factor;
  vae.sample_size = unet.sample_size << (vae.block_out_channels.size() - 1);  // of what is trained, for its operations
  HfConfig text = OpenDiffusionConfig(JoinPath(path, "text_encoder"));
  unet.context_tokens = text.Size("max_position_embeddings", unet.context_tokens);
  auto model = MakeConditionalUNet(unet);
  if (options.pretrained) TakeDiffusionWeights(*model, JoinPath(path, "unet"));
  encoders.vae = std::make_shared<Autoencoder>(vae);
  TakeDiffusionWeights(*encoders.vae, JoinPath(path, "vae"));
  encoders.text_encoder = LoadHfModel({.path = JoinPath(path, "text_encoder")});
  model->AddEncoders(encoders);
  return model;
}

}  // namespace composer

// diffusers' folders as models: an autoencoder's, and a whole Stable Diffusion's, as save_pretrained writes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trainer/models/hf/hf_config.h"
#include "trainer/models/vision/autoencoder.h"
#include "trainer/models/vision/conditional_unet.h"

namespace composer {

// These read all fields of a config.json (scheduler_config.json), and throw StatusError that names the field that is
// wrong or not supported.
AutoencoderOptions ReadAutoencoderConfig(HfConfig& config);
ConditionalUNetOptions ReadUNetConfig(HfConfig& config);
// Of a scheduler of any class: what it says of the noise and of DDIM.
NoiseScheduleOptions ReadSchedulerConfig(HfConfig& config);

// Reads config.json and diffusion_pytorch_model.safetensors (or its parts) of the folder. The first files' names of
// attention (query, key, value, proj_attn) are known.
struct AutoencoderFolder {
  std::string path;
  bool pretrained = true;  // false: only config.json is read, and the weights are drawn
  double kl_weight = 1e-6;
  bool encode_only = false;
};
// Throws StatusError for files that cannot be read, c10::ValueError for weights that do not fit.
std::shared_ptr<Autoencoder> LoadAutoencoder(const AutoencoderFolder& folder);

struct StableDiffusionOptions {
  std::string path;                  // the folder, with unet, vae, text_encoder and scheduler; "": Stable Diffusion 2's
                                     // U-Net alone, drawn, for latents that are computed beforehand
  bool pretrained = true;            // false: the U-Net's weights are drawn; vae and text_encoder are always loaded
  bool precomputed_latents = false;  // the data are scaled latents and hidden states
  std::optional<PredictionType> prediction_type;  // in place of the scheduler's
  bool rescale_betas_zero_snr = false;            // or as the scheduler says
  double conditioning_dropout = 0;
  int64_t sample_size = 0;  // of latents; 0: the U-Net's
};
// The U-Net, with the parameters' names of diffusers, and behind it vae and text_encoder, frozen. Throws as
// LoadAutoencoder, and c10::ValueError that names the option.
std::shared_ptr<DiffusionModel> LoadStableDiffusion(const StableDiffusionOptions& options);

// Stable Diffusion 2's (512-base-ema): the U-Net with its noise schedule and scaling factor.
ConditionalUNetOptions StableDiffusion2UNet();

}  // namespace composer

// The variational autoencoder of latent diffusion: diffusers' AutoencoderKL, with its names of options and parameters
// and its layouts. Kingma and Welling 2013, arXiv:1312.6114; Rombach et al. 2021, arXiv:2112.10752; diffusers 0.35,
// models/autoencoders.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/layers/slot.h"

namespace composer {

// The defaults are those of Stable Diffusion, versions 1 and 2.
struct AutoencoderOptions {
  int64_t in_channels = 3, out_channels = 3;  // equal
  int64_t latent_channels = 4;
  std::vector<int64_t> block_out_channels = {128, 256, 512, 512};  // of each level, from the whole picture down
  int64_t layers_per_block = 2;
  int64_t norm_num_groups = 32;
  bool mid_block_add_attention = true;
  bool use_quant_conv = true, use_post_quant_conv = true;
  double scaling_factor = 0.18215;  // makes the variance of latents 1
  int64_t sample_size = 512;        // height and width of a picture, for flops_per_sample
  double kl_weight = 1e-6;          // of the divergence in the loss
  bool encode_only = false;         // forward computes latents alone, and there is no loss
};

// The normal distribution of a picture's latents, each [B, latent_channels, h, w].
struct LatentMoments {
  at::Tensor mean, logvar;  // logvar is in -30 .. 20

  // mean + exp(logvar / 2) noise.
  at::Tensor Sample(const at::Tensor& noise) const;
};

// A batch has `inputs`, pictures [B, in_channels, H, W] of -1 to 1. H and W are multiples of downsampling(). Outputs
// are `outputs`, the pictures decoded again, `latents`, already multiplied by scaling_factor, `mean` and `logvar`. In
// training the latents are drawn (`latent_noise` of the batch comes in place of the draw); in evaluation they are the
// means. With encode_only `outputs` are the latents. The loss is Rombach's over the number of a picture's values:
//
//   mean (x - y)^2 + kl_weight / (C H W) mean over samples of sum (mean^2 + e^logvar - 1 - logvar) / 2
//
// without the perceptual and the adversarial part, which need networks of their own. The
// metrics are MeanSquaredError and, in evaluation of pictures of 6 x 6 and more, SSIM.
class Autoencoder final : public Model {
 public:
  // Throws c10::ValueError that names the option that does not fit.
  explicit Autoencoder(const AutoencoderOptions& options);
  ~Autoencoder() override;

  Outputs forward(const Batch& batch) override;
  Loss loss(const Outputs& outputs, const Batch& batch) override;
  at::Tensor sample_losses(const Outputs& outputs, const Batch& batch) override;
  MetricList metrics(bool is_train) const override;
  double flops_per_sample() const override { return flops_per_sample_; }

  // [B, in_channels, H, W] to moments of latents [B, latent_channels, H / d, W / d]. Latents are not scaled here.
  LatentMoments Encode(const at::Tensor& pictures);
  at::Tensor Decode(const at::Tensor& latents);

  int64_t downsampling() const { return int64_t{1} << (options_.block_out_channels.size() - 1); }
  // Floating point operations of Encode for a picture of sample_size.
  double encoding_flops() const { return encoding_flops_; }
  const AutoencoderOptions& options() const { return options_; }

 private:
  class Encoder;
  class Decoder;

  AutoencoderOptions options_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Decoder> decoder_;
  Slot<Layer> quant_conv_, post_quant_conv_;
  double flops_per_sample_ = 0, encoding_flops_ = 0;
};

}  // namespace composer

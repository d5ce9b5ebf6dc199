// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/autoencoder.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "trainer/layers/attention_core.h"
#include "trainer/metrics/squared_error.h"
#include "trainer/metrics/ssim.h"
#include "trainer/models/vision/conv_maker.h"
#include "trainer/models/vision/unet_layers.h"

namespace composer {
namespace {

constexpr double kAutoencoderNormEps = 1e-6;
constexpr double kLeastLogvar = -30, kMostLogvar = 20;

// Attention of all pixels to each other, with one head; input and output: [B, width, H, W].
class AutoencoderAttention final : public Block {
 public:
  AutoencoderAttention(UNetMaker& make, int64_t width)
      : group_norm_(*this, "group_norm", make.Norm(width, make.norm_eps)),
        to_q_(*this, "to_q", make.Linear(width, width, make.area())),
        to_k_(*this, "to_k", make.Linear(width, width, make.area())),
        to_v_(*this, "to_v", make.Linear(width, width, make.area())),
        core_(*this, "core", std::make_shared<DotProductAttention>(0.0)) {
    const auto out = std::make_shared<LayerSequence>();
    out->Add(make.Linear(width, width, make.area()));
    to_out_ = Slot<Layer>(*this, "to_out", out);
    make.multiplications += 2 * make.area() * make.area() * static_cast<double>(width);
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor& x = inputs[0];
    const int64_t width = x.size(1);
    const at::Tensor y = group_norm_->forward(x).flatten(2).transpose(1, 2);
    const at::Tensor q = SplitHeads(to_q_->forward(y), width), k = SplitHeads(to_k_->forward(y), width);
    const at::Tensor v = SplitHeads(to_v_->forward(y), width);
    const at::Tensor seen = JoinHeads(core_->forward(q, k, v, std::nullopt, /*is_causal=*/false));
    return x + to_out_->forward(seen).transpose(1, 2).reshape(x.sizes());
  }

 private:
  Slot<Layer> group_norm_, to_q_, to_k_, to_v_, to_out_;
  Slot<AttentionCore> core_;
};

// Half the size, with zeros only below and to the right: [B, width, 2h, 2w] to [B, width, h, w].
class EncoderDownsample final : public Block {
 public:
  EncoderDownsample(UNetMaker& make, int64_t width) {
    make.side /= 2;
    make.multiplications += make.area() * static_cast<double>(width * width * 9);
    conv_ =
        Slot<Layer>(*this, "conv", std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(width, width, 3).stride(2)));
  }

 protected:
  at::Tensor Compute(const std::vector<at::Tensor>& inputs) override {
    return conv_->forward(at::constant_pad_nd(inputs[0], {0, 1, 0, 1}));
  }

 private:
  Slot<Layer> conv_;
};

// The layers of one size of pictures; `sampler`, if there, leads to the next one.
struct AutoencoderLevel final : torch::nn::Module {
  AutoencoderLevel() : resnets(register_module("resnets", std::make_shared<LayerList>())) {}
  void AddResnet(UNetMaker& make, int64_t in, int64_t out) {
    resnets->Add(std::make_shared<ResnetBlock2D>(make, in, out));
  }
  void AddSampler(const char* name, std::shared_ptr<torch::nn::Module> layer) {
    sampler = register_module(name, std::make_shared<LayerList>());
    sampler->Add(std::move(layer));
  }
  at::Tensor Run(at::Tensor x) const {
    for (size_t i = 0; i < resnets->size(); ++i) x = (*resnets)[i].forward(x);
    return sampler == nullptr ? x : (*sampler)[0].forward(x);
  }
  std::shared_ptr<LayerList> resnets, sampler;
};

// The lowest part: two residual blocks with attention between them.
struct AutoencoderMiddle final : torch::nn::Module {
  AutoencoderMiddle(UNetMaker& make, int64_t width, bool attends)
      : resnets(register_module("resnets", std::make_shared<LayerList>())) {
    resnets->Add(std::make_shared<ResnetBlock2D>(make, width, width));
    if (attends) {
      attentions = register_module("attentions", std::make_shared<LayerList>());
      attentions->Add(std::make_shared<AutoencoderAttention>(make, width));
    }
    resnets->Add(std::make_shared<ResnetBlock2D>(make, width, width));
  }
  at::Tensor Run(const at::Tensor& input) const {
    at::Tensor x = (*resnets)[0].forward(input);
    if (attentions != nullptr) x = (*attentions)[0].forward(x);
    return (*resnets)[1].forward(x);
  }
  std::shared_ptr<LayerList> resnets, attentions;
};

void CheckAutoencoder(const AutoencoderOptions& o) {
  const size_t levels = o.block_out_channels.size();
  TORCH_CHECK_VALUE(levels >= 1 && levels <= 16, "model.block_out_channels: ", levels,
                    " of them; there must be 1 to 16");
  for (const int64_t width : o.block_out_channels) CheckModelSize("block_out_channels", width);
  for (const auto& [field, value] :
       {std::pair("in_channels", o.in_channels), std::pair("latent_channels", o.latent_channels),
        std::pair("layers_per_block", o.layers_per_block), std::pair("norm_num_groups", o.norm_num_groups),
        std::pair("sample_size", o.sample_size)})
    CheckModelSize(field, value);
  TORCH_CHECK_VALUE(o.in_channels == o.out_channels, "model.out_channels: ", o.out_channels,
                    " must be equal to in_channels, ", o.in_channels, ": pictures are made again");
  TORCH_CHECK_VALUE(o.scaling_factor > 0, "model.scaling_factor: ", o.scaling_factor, " must be above 0");
  TORCH_CHECK_VALUE(o.kl_weight >= 0, "model.kl_weight: ", o.kl_weight, " must be at least 0");
}

UNetMaker MakerOf(const AutoencoderOptions& o, int64_t side) {
  return {.groups = o.norm_num_groups, .norm_eps = kAutoencoderNormEps, .side = side};
}

// The loss of each sample, without the division by C H W of the divergence.
at::Tensor DivergenceOf(const Outputs& outputs) {
  const at::Tensor mean = outputs["mean"].to(at::kFloat), logvar = outputs["logvar"].to(at::kFloat);
  return (mean.square() + logvar.exp() - 1 - logvar).flatten(1).sum(1) / 2;
}

}  // namespace

class Autoencoder::Encoder final : public torch::nn::Module {
 public:
  Encoder(const AutoencoderOptions& options, UNetMaker& make)
      : conv_in_(*this, "conv_in", make.Conv(options.in_channels, options.block_out_channels[0])) {
    const auto list = register_module("down_blocks", std::make_shared<torch::nn::Module>());
    int64_t width = options.block_out_channels[0];
    for (size_t level = 0; level < options.block_out_channels.size(); ++level) {
      levels_.push_back(list->register_module(std::to_string(level), std::make_shared<AutoencoderLevel>()));
      for (int64_t i = 0; i < options.layers_per_block; ++i) {
        levels_.back()->AddResnet(make, width, options.block_out_channels[level]);
        width = options.block_out_channels[level];
      }
      if (level + 1 < options.block_out_channels.size())
        levels_.back()->AddSampler("downsamplers", std::make_shared<EncoderDownsample>(make, width));
    }
    middle_ =
        register_module("mid_block", std::make_shared<AutoencoderMiddle>(make, width, options.mid_block_add_attention));
    norm_out_ = Slot<Layer>(*this, "conv_norm_out", make.Norm(width, make.norm_eps));
    conv_out_ = Slot<Layer>(*this, "conv_out", make.Conv(width, 2 * options.latent_channels));
  }
  at::Tensor Run(const at::Tensor& pictures) const {
    at::Tensor x = conv_in_->forward(pictures);
    for (const auto& level : levels_) x = level->Run(x);
    return conv_out_->forward(at::silu(norm_out_->forward(middle_->Run(x))));
  }

 private:
  Slot<Layer> conv_in_, norm_out_, conv_out_;
  std::vector<std::shared_ptr<AutoencoderLevel>> levels_;
  std::shared_ptr<AutoencoderMiddle> middle_;
};

class Autoencoder::Decoder final : public torch::nn::Module {
 public:
  Decoder(const AutoencoderOptions& options, UNetMaker& make)
      : conv_in_(*this, "conv_in", make.Conv(options.latent_channels, options.block_out_channels.back())) {
    int64_t width = options.block_out_channels.back();
    middle_ =
        register_module("mid_block", std::make_shared<AutoencoderMiddle>(make, width, options.mid_block_add_attention));
    const auto list = register_module("up_blocks", std::make_shared<torch::nn::Module>());
    const size_t levels = options.block_out_channels.size();
    for (size_t step = 0; step < levels; ++step) {
      const int64_t out = options.block_out_channels[levels - 1 - step];
      levels_.push_back(list->register_module(std::to_string(step), std::make_shared<AutoencoderLevel>()));
      for (int64_t i = 0; i <= options.layers_per_block; ++i) {
        levels_.back()->AddResnet(make, width, out);
        width = out;
      }
      if (step + 1 < levels)
        levels_.back()->AddSampler("upsamplers", std::make_shared<Upsample2D>(make, width, 2 * make.side));
    }
    norm_out_ = Slot<Layer>(*this, "conv_norm_out", make.Norm(width, make.norm_eps));
    conv_out_ = Slot<Layer>(*this, "conv_out", make.Conv(width, options.out_channels));
  }
  at::Tensor Run(const at::Tensor& latents) const {
    at::Tensor x = middle_->Run(conv_in_->forward(latents));
    for (const auto& level : levels_) x = level->Run(x);
    return conv_out_->forward(at::silu(norm_out_->forward(x)));
  }

 private:
  Slot<Layer> conv_in_, norm_out_, conv_out_;
  std::vector<std::shared_ptr<AutoencoderLevel>> levels_;
  std::shared_ptr<AutoencoderMiddle> middle_;
};

at::Tensor LatentMoments::Sample(const at::Tensor& noise) const {
  TORCH_CHECK_VALUE(noise.sizes() == mean.sizes(), "latent_noise: the data has ", noise.sizes(), " for latents ",
                    mean.sizes());
  return mean + (0.5 * logvar).exp() * noise.to(mean.scalar_type());
}

Autoencoder::Autoencoder(const AutoencoderOptions& options) : options_((CheckAutoencoder(options), options)) {
  UNetMaker down = MakerOf(options, options.sample_size);
  encoder_ = register_module("encoder", std::make_shared<Encoder>(options, down));
  UNetMaker up = MakerOf(options, down.side);
  decoder_ = register_module("decoder", std::make_shared<Decoder>(options, up));
  UNetMaker between = MakerOf(options, down.side);
  if (options.use_quant_conv)
    quant_conv_ = Slot<Layer>(*this, "quant_conv",
                              between.Conv(2 * options.latent_channels, 2 * options.latent_channels, /*kernel=*/1));
  if (options.use_post_quant_conv)
    post_quant_conv_ = Slot<Layer>(*this, "post_quant_conv",
                                   between.Conv(options.latent_channels, options.latent_channels, /*kernel=*/1));
  encoding_flops_ = 2 * (down.multiplications + between.multiplications);
  flops_per_sample_ = 3 * 2 * (down.multiplications + up.multiplications + between.multiplications);
}

Autoencoder::~Autoencoder() = default;

LatentMoments Autoencoder::Encode(const at::Tensor& pictures) {
  CheckPictures(pictures, options_.in_channels);
  const int64_t d = downsampling();
  TORCH_CHECK_VALUE(pictures.size(2) % d == 0 && pictures.size(3) % d == 0, "model.block_out_channels: with ",
                    options_.block_out_channels.size(), " levels, height and width of pictures must be multiples of ",
                    d, ", but the data's inputs are ", pictures.sizes());
  at::Tensor moments = encoder_->Run(pictures);
  if (quant_conv_) moments = quant_conv_->forward(moments);
  const std::vector<at::Tensor> halves = moments.chunk(2, 1);
  return {halves[0], halves[1].clamp(kLeastLogvar, kMostLogvar)};
}

at::Tensor Autoencoder::Decode(const at::Tensor& latents) {
  return decoder_->Run(post_quant_conv_ ? post_quant_conv_->forward(latents) : latents);
}

Outputs Autoencoder::forward(const Batch& batch) {
  const LatentMoments moments = Encode(batch.inputs);
  at::Tensor latents = moments.mean;
  if (is_training()) {
    const auto given = batch.extra.find("latent_noise");
    latents = moments.Sample(given == batch.extra.end() ? torch::randn_like(latents) : given->second);
  }
  const at::Tensor scaled = latents * options_.scaling_factor;
  if (options_.encode_only)
    return Outputs(Outputs::Named{{"outputs", scaled}, {"mean", moments.mean}, {"logvar", moments.logvar}});
  return Outputs(Outputs::Named{{"outputs", Decode(latents)},
                                {"target", batch.inputs},
                                {"latents", scaled},
                                {"mean", moments.mean},
                                {"logvar", moments.logvar}});
}

at::Tensor Autoencoder::sample_losses(const Outputs& outputs, const Batch& /*batch*/) {
  TORCH_CHECK_VALUE(!options_.encode_only, "model.encode_only: latents have no loss; it is for `composer predict`");
  const at::Tensor& target = outputs["target"];
  const at::Tensor errors = (outputs["outputs"].to(at::kFloat) - target.to(at::kFloat)).square().flatten(1).mean(1);
  const double values = static_cast<double>(target[0].numel());
  return errors + DivergenceOf(outputs) * (options_.kl_weight / values);
}

Loss Autoencoder::loss(const Outputs& outputs, const Batch& batch) { return sample_losses(outputs, batch).mean(); }

MetricList Autoencoder::metrics(bool is_train) const {
  constexpr double kPictureRange = 2;  // from -1 to 1
  MetricList metrics;
  if (options_.encode_only) return metrics;
  metrics.push_back(MakeTargetSquaredError());
  if (!is_train && options_.sample_size >= 6) metrics.push_back(MakeSsim(kPictureRange));
  return metrics;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/conditional_unet.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "trainer/models/text/text_layers.h"
#include "trainer/models/vision/conv_maker.h"
#include "trainer/models/vision/unet_layers.h"

namespace composer {
namespace {

constexpr double kLongestPeriod = 10000;
constexpr int64_t kTimeWidthFactor = 4;

// The layers of one size of pictures; `sampler`, if there, leads to the next one.
struct UNetLevel final : torch::nn::Module {
  UNetLevel()
      : resnets(register_module("resnets", std::make_shared<LayerList>())),
        attentions(register_module("attentions", std::make_shared<LayerList>())) {}
  void AddSampler(const char* name, std::shared_ptr<torch::nn::Module> layer) {
    sampler = register_module(name, std::make_shared<LayerList>());
    sampler->Add(std::move(layer));
  }
  // inputs: pictures, the step's embedding, the text.
  at::Tensor RunLayer(size_t layer, const at::Tensor& x, const at::Tensor& time, const at::Tensor& text) const {
    const at::Tensor y = (*resnets)[layer].Run({x, time});
    return layer < attentions->size() ? (*attentions)[layer].Run({y, text}) : y;
  }

  std::shared_ptr<LayerList> resnets, attentions, sampler;
};

bool HasAttention(const char* field, const std::string& type, const std::string& with, const std::string& without) {
  TORCH_CHECK_VALUE(type == with || type == without, "model.", field, ": `", type, "`; there are ", with, " and ",
                    without);
  return type == with;
}

void CheckConditionalUNet(const ConditionalUNetOptions& o) {
  const size_t levels = o.block_out_channels.size();
  TORCH_CHECK_VALUE(levels >= 1 && levels <= 16, "model.block_out_channels: ", levels,
                    " of them; there must be 1 to 16");
  for (const auto& [field, size] :
       {std::pair("down_block_types", o.down_block_types.size()), std::pair("up_block_types", o.up_block_types.size())})
    TORCH_CHECK_VALUE(size == levels, "model.", field, ": ", size, " of them, but block_out_channels has ", levels);
  TORCH_CHECK_VALUE(o.attention_head_dim.size() == 1 || o.attention_head_dim.size() == levels,
                    "model.attention_head_dim: ", o.attention_head_dim.size(),
                    " of them; there must be one, or one for each of the ", levels, " block_out_channels");
  for (const int64_t width : o.block_out_channels) CheckModelSize("block_out_channels", width);
  for (const int64_t heads : o.attention_head_dim) CheckModelSize("attention_head_dim", heads);
  for (const auto& [field, value] :
       {std::pair("in_channels", o.in_channels), std::pair("layers_per_block", o.layers_per_block),
        std::pair("transformer_layers_per_block", o.transformer_layers_per_block),
        std::pair("cross_attention_dim", o.cross_attention_dim), std::pair("norm_num_groups", o.norm_num_groups),
        std::pair("sample_size", o.sample_size), std::pair("context_tokens", o.context_tokens)})
    CheckModelSize(field, value);
  TORCH_CHECK_VALUE(o.in_channels == o.out_channels, "model.out_channels: ", o.out_channels,
                    " must be equal to in_channels, ", o.in_channels, ": variances are not learned");
  TORCH_CHECK_VALUE(o.num_class_embeds >= 0, "model.num_class_embeds: ", o.num_class_embeds, " must be at least 0");
  TORCH_CHECK_VALUE(o.dropout >= 0 && o.dropout < 1, "model.dropout: ", o.dropout, " must be at least 0 and below 1");
  const int64_t half = o.block_out_channels[0] / 2;
  TORCH_CHECK_VALUE(o.block_out_channels[0] % 2 == 0 && o.freq_shift < static_cast<double>(half),
                    "model.block_out_channels: the first, ", o.block_out_channels[0],
                    ", must be even and above twice freq_shift, ", o.freq_shift);
}

class ConditionalUNet final : public DiffusionModel {
 public:
  explicit ConditionalUNet(const ConditionalUNetOptions& options)
      : DiffusionModel(options.diffusion), options_((CheckConditionalUNet(options), options)) {
    const int64_t first = options_.block_out_channels[0], width = kTimeWidthFactor * first;
    UNetMaker make{.time_width = width,
                   .groups = options_.norm_num_groups,
                   .norm_eps = options_.norm_eps,
                   .dropout = options_.dropout,
                   .context_width = options_.cross_attention_dim,
                   .linear_projection = options_.use_linear_projection,
                   .side = options_.sample_size,
                   .context_tokens = options_.context_tokens};
    conv_in_ = Slot<Layer>(*this, "conv_in", make.Conv(options_.in_channels, first));
    const auto time = register_module("time_embedding", std::make_shared<torch::nn::Module>());
    time_linear1_ = Slot<Layer>(*time, "linear_1", make.Linear(first, width, 1));
    time_linear2_ = Slot<Layer>(*time, "linear_2", make.Linear(width, width, 1));
    if (options_.num_class_embeds > 0)
      class_embedding_ =
          Slot<EmbeddingLayer>(*this, "class_embedding", MakeEmbedding(options_.num_class_embeds, width));
    std::vector<int64_t> widths_beside = {first}, sides;
    MakeDown(make, widths_beside, sides);
    MakeMiddle(make);
    MakeUp(make, widths_beside, sides);
    conv_norm_out_ = Slot<Layer>(*this, "conv_norm_out", make.Norm(first, options_.norm_eps));
    conv_out_ = Slot<Layer>(*this, "conv_out", make.Conv(first, options_.out_channels));
    flops_per_sample_ = 3 * 2 * make.multiplications;
  }

  at::Tensor Denoise(const at::Tensor& pictures, const at::Tensor& steps,
                     const DiffusionCondition& condition) override {
    CheckPictures(pictures, options_.in_channels);
    const at::Tensor time = EmbedTime(pictures, steps, condition.labels);
    std::vector<at::Tensor> beside;
    at::Tensor x = conv_in_->forward(pictures);
    beside.push_back(x);
    for (const auto& level : down_) {
      for (size_t i = 0; i < level->resnets->size(); ++i)
        beside.push_back(x = level->RunLayer(i, x, time, condition.text));
      if (level->sampler != nullptr) beside.push_back(x = (*level->sampler)[0].forward(x));
    }
    for (size_t i = 0; i < middle_->resnets->size(); ++i) x = middle_->RunLayer(i, x, time, condition.text);
    for (const auto& level : up_) {
      for (size_t i = 0; i < level->resnets->size(); ++i) {
        x = level->RunLayer(i, at::cat({x, beside.back()}, 1), time, condition.text);
        beside.pop_back();
      }
      if (level->sampler != nullptr) x = (*level->sampler)[0].Run({x, beside.back()});
    }
    return conv_out_->forward(at::silu(conv_norm_out_->forward(x)));
  }

  DiffusionCondition CheckedCondition(const DiffusionCondition& given, int64_t samples) const override {
    DiffusionCondition condition;
    if (reads_text_) {
      condition.text = given.text;
      TORCH_CHECK_VALUE(condition.text.defined(), "model: it reads a text, so there must be ",
                        "encoder_hidden_states [B, T, ", options_.cross_attention_dim,
                        "]; without text, take DownBlock2D, UNetMidBlock2D and UpBlock2D");
      const bool fits = condition.text.dim() == 3 && condition.text.size(0) == samples &&
                        condition.text.size(2) == options_.cross_attention_dim;
      TORCH_CHECK_VALUE(fits, "model.cross_attention_dim: encoder_hidden_states of ", samples,
                        " samples must be [B, T, ", options_.cross_attention_dim, "], not ", condition.text.sizes());
      condition.no_text = given.no_text;
      const bool stands =
          !given.no_text.defined() ||
          (given.no_text.dim() == 3 && (given.no_text.size(0) == 1 || given.no_text.size(0) == samples) &&
           given.no_text.sizes().slice(1) == given.text.sizes().slice(1));
      TORCH_CHECK_VALUE(stands, "negative_encoder_hidden_states must be [1, T, D] or [B, T, D] as the ", "texts, ",
                        given.text.sizes(), ", not ", given.no_text.sizes());
    }
    if (!class_embedding_) return condition;
    condition.labels = given.labels;
    const bool fits = condition.labels.defined() && condition.labels.scalar_type() == at::kLong &&
                      condition.labels.dim() == 1 && condition.labels.size(0) == samples;
    TORCH_CHECK_VALUE(fits, "model.num_class_embeds: there must be class_labels or targets, int64 [B]");
    return condition;
  }

  std::vector<int64_t> sample_shape() const override {
    return {options_.in_channels, options_.sample_size, options_.sample_size};
  }

  int64_t text_tokens() const override { return options_.context_tokens; }

  DiffusionCondition WithoutCondition(const DiffusionCondition& condition, const at::Tensor& left_out) const override {
    DiffusionCondition without;
    const at::Tensor chosen = left_out.view({-1, 1, 1});
    if (condition.no_text.defined()) {
      without.text = at::where(chosen, condition.no_text, condition.text);
    } else if (condition.text.defined()) {
      without.text = condition.text.masked_fill(chosen, 0);
    }
    if (condition.labels.defined())
      without.labels = condition.labels.masked_fill(left_out, options_.num_class_embeds - 1);
    return without;
  }

 private:
  // sines and cosines of the steps, two layers, and the class.
  at::Tensor EmbedTime(const at::Tensor& pictures, const at::Tensor& steps, const at::Tensor& labels) {
    const int64_t half = options_.block_out_channels[0] / 2;
    const at::Tensor places = torch::arange(half, torch::dtype(at::kFloat).device(steps.device()));
    const double scale = -std::log(kLongestPeriod) / (static_cast<double>(half) - options_.freq_shift);
    const at::Tensor angles = steps.to(at::kFloat).unsqueeze(1) * (places * scale).exp().unsqueeze(0);
    const at::Tensor sines = angles.sin(), cosines = angles.cos();
    const at::Tensor waves = options_.flip_sin_to_cos ? at::cat({cosines, sines}, 1) : at::cat({sines, cosines}, 1);
    const at::Tensor time = time_linear2_->forward(at::silu(time_linear1_->forward(waves.to(pictures.scalar_type()))));
    if (!class_embedding_) return time;
    try {
      return time + class_embedding_->forward(labels);
    } catch (const c10::IndexError&) {
      TORCH_CHECK_VALUE(false, "model.num_class_embeds: it has ", options_.num_class_embeds,
                        " classes, which the data's labels up to ", labels.max().item<int64_t>(), " do not fit");
      throw;
    }
  }

  int64_t Heads(size_t level) const {
    const std::vector<int64_t>& heads = options_.attention_head_dim;
    return heads.size() == 1 ? heads[0] : heads[level];
  }

  std::shared_ptr<Transformer2DModel> Attention(UNetMaker& make, size_t level) {
    reads_text_ = true;
    return std::make_shared<Transformer2DModel>(make, options_.block_out_channels[level], Heads(level),
                                                options_.transformer_layers_per_block);
  }

  // widths_beside: of each picture that the way up takes; sides: of each level.
  void MakeDown(UNetMaker& make, std::vector<int64_t>& widths_beside, std::vector<int64_t>& sides) {
    const auto list = register_module("down_blocks", std::make_shared<torch::nn::Module>());
    const size_t levels = options_.block_out_channels.size();
    int64_t width = options_.block_out_channels[0];
    for (size_t level = 0; level < levels; ++level) {
      const bool attends =
          HasAttention("down_block_types", options_.down_block_types[level], "CrossAttnDownBlock2D", "DownBlock2D");
      down_.push_back(list->register_module(std::to_string(level), std::make_shared<UNetLevel>()));
      for (int64_t i = 0; i < options_.layers_per_block; ++i) {
        down_.back()->resnets->Add(std::make_shared<ResnetBlock2D>(make, width, options_.block_out_channels[level]));
        width = options_.block_out_channels[level];
        if (attends) down_.back()->attentions->Add(Attention(make, level));
        widths_beside.push_back(width);
      }
      sides.push_back(make.side);
      if (level + 1 == levels) continue;
      down_.back()->AddSampler("downsamplers", std::make_shared<Downsample2D>(make, width));
      widths_beside.push_back(width);
    }
  }

  void MakeMiddle(UNetMaker& make) {
    const size_t last = options_.block_out_channels.size() - 1;
    const int64_t width = options_.block_out_channels[last];
    const bool attends =
        HasAttention("mid_block_type", options_.mid_block_type, "UNetMidBlock2DCrossAttn", "UNetMidBlock2D");
    middle_ = register_module("mid_block", std::make_shared<UNetLevel>());
    middle_->resnets->Add(std::make_shared<ResnetBlock2D>(make, width, width));
    if (!attends) return;
    middle_->attentions->Add(Attention(make, last));
    middle_->resnets->Add(std::make_shared<ResnetBlock2D>(make, width, width));
  }

  void MakeUp(UNetMaker& make, std::vector<int64_t>& widths_beside, const std::vector<int64_t>& sides) {
    const auto list = register_module("up_blocks", std::make_shared<torch::nn::Module>());
    const size_t levels = options_.block_out_channels.size();
    int64_t width = options_.block_out_channels.back();
    for (size_t step = 0; step < levels; ++step) {
      const size_t level = levels - 1 - step;
      const bool attends =
          HasAttention("up_block_types", options_.up_block_types[step], "CrossAttnUpBlock2D", "UpBlock2D");
      up_.push_back(list->register_module(std::to_string(step), std::make_shared<UNetLevel>()));
      for (int64_t i = 0; i <= options_.layers_per_block; ++i) {
        up_.back()->resnets->Add(
            std::make_shared<ResnetBlock2D>(make, width + widths_beside.back(), options_.block_out_channels[level]));
        widths_beside.pop_back();
        width = options_.block_out_channels[level];
        if (attends) up_.back()->attentions->Add(Attention(make, level));
      }
      if (level > 0) up_.back()->AddSampler("upsamplers", std::make_shared<Upsample2D>(make, width, sides[level - 1]));
    }
  }

  ConditionalUNetOptions options_;
  bool reads_text_ = false;
  Slot<Layer> conv_in_, time_linear1_, time_linear2_, conv_norm_out_, conv_out_;
  Slot<EmbeddingLayer> class_embedding_;
  std::vector<std::shared_ptr<UNetLevel>> down_, up_;
  std::shared_ptr<UNetLevel> middle_;
};

}  // namespace

std::shared_ptr<DiffusionModel> MakeConditionalUNet(const ConditionalUNetOptions& options) {
  return std::make_shared<ConditionalUNet>(options);
}

}  // namespace composer

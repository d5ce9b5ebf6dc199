// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "job/algorithms/algorithm_rows.h"
#include "job/plugin/job_time.h"
#include "trainer/algorithms/surgery/alibi.h"
#include "trainer/algorithms/surgery/blur_pool.h"
#include "trainer/algorithms/surgery/channels_last.h"
#include "trainer/algorithms/surgery/factorize.h"
#include "trainer/algorithms/surgery/gated_linear_units.h"
#include "trainer/algorithms/surgery/ghost_batch_norm.h"
#include "trainer/algorithms/surgery/gyro_dropout.h"
#include "trainer/algorithms/surgery/logit_soft_cap.h"
#include "trainer/algorithms/surgery/lora.h"
#include "trainer/algorithms/surgery/low_precision_group_norm.h"
#include "trainer/algorithms/surgery/low_precision_layer_norm.h"
#include "trainer/algorithms/surgery/no_op_model.h"
#include "trainer/algorithms/surgery/progressive_layer_dropping.h"
#include "trainer/algorithms/surgery/qk_norm.h"
#include "trainer/algorithms/surgery/relu_squared.h"
#include "trainer/algorithms/surgery/squeeze_excite.h"
#include "trainer/algorithms/surgery/stochastic_depth.h"
#include "trainer/algorithms/surgery/value_embeddings.h"
#include "trainer/algorithms/surgery/weight_standardization.h"
#include "trainer/algorithms/surgery/whitening_conv.h"
#include "trainer/algorithms/surgery/zero_init.h"

namespace composer {
namespace {

AlgorithmFactory ReadAlibi(ConfigMap config) {
  AlibiOptions options;
  options.max_sequence_length = config.RequiredInt("max_sequence_length", {.min = 1});
  options.train_sequence_length_scaling =
      config.Double("train_sequence_length_scaling", options.train_sequence_length_scaling, {.min = 1e-6});
  return [options] { return std::make_unique<Alibi>(options); };
}

AlgorithmFactory ReadBlurPool(ConfigMap config) {
  BlurPoolOptions options;
  options.replace_convs = config.Bool("replace_convs", options.replace_convs);
  options.replace_maxpools = config.Bool("replace_maxpools", options.replace_maxpools);
  options.blur_first = config.Bool("blur_first", options.blur_first);
  options.min_channels = config.Int("min_channels", options.min_channels, {.min = 0});
  if (!options.replace_convs && !options.replace_maxpools)
    config.Reject("", "replace_convs and replace_maxpools are both false, which leaves nothing to replace");
  return [options] { return std::make_unique<BlurPool>(options); };
}

AlgorithmFactory ReadChannelsLast(ConfigMap /*config*/) {
  return [] { return std::make_unique<ChannelsLast>(); };
}

AlgorithmFactory ReadFactorize(ConfigMap config) {
  FactorizeOptions options;
  options.factorize_convs = config.Bool("factorize_convs", options.factorize_convs);
  options.factorize_linears = config.Bool("factorize_linears", options.factorize_linears);
  options.min_channels = config.Int("min_channels", options.min_channels, {.min = 0});
  options.latent_channels = config.Double("latent_channels", options.latent_channels, {.min = 1e-6});
  options.min_features = config.Int("min_features", options.min_features, {.min = 0});
  options.latent_features = config.Double("latent_features", options.latent_features, {.min = 1e-6});
  options.svd_init = config.Bool("svd_init", options.svd_init);
  return [options] { return std::make_unique<Factorize>(options); };
}

AlgorithmFactory ReadGatedLinearUnits(ConfigMap config) {
  GatedLinearUnitsOptions options;
  if (config.Has("act_fn")) {
    const std::string name = config.Choice("act_fn", {"gelu", "gelu_tanh", "relu", "silu", "sigmoid"}, "gelu");
    options.act_fn = name == "gelu_tanh" ? GateActivation::kGeluTanh
                     : name == "relu"    ? GateActivation::kRelu
                     : name == "silu"    ? GateActivation::kSilu
                     : name == "sigmoid" ? GateActivation::kSigmoid
                                         : GateActivation::kGelu;
  }
  options.gated_layer_bias = config.Bool("gated_layer_bias", options.gated_layer_bias);
  options.non_gated_layer_bias = config.Bool("non_gated_layer_bias", options.non_gated_layer_bias);
  return [options] { return std::make_unique<GatedLinearUnits>(options); };
}

AlgorithmFactory ReadGhostBatchNorm(ConfigMap config) {
  const int64_t size = config.Int("ghost_batch_size", 32, {.min = 1});
  return [size] { return std::make_unique<GhostBatchNorm>(size); };
}

AlgorithmFactory ReadGyroDropout(ConfigMap config) {
  GyroDropoutOptions options;
  options.p = config.Double("p", options.p, {.min = 0, .max = 0.999});
  options.sigma = config.Int("sigma", options.sigma, {.min = 1, .max = 1 << 20});
  options.tau = config.Int("tau", options.tau, {.min = 1, .max = 1 << 20});
  return [options] { return std::make_unique<GyroDropout>(options); };
}

AlgorithmFactory ReadLogitSoftCap(ConfigMap config) {
  LogitSoftCapOptions options;
  options.cap = config.Double("cap", options.cap, {.min = 1e-6, .max = 1e6});
  options.layer = config.String("layer", options.layer);
  return [options] { return std::make_unique<LogitSoftCap>(options); };
}

AlgorithmFactory ReadLora(ConfigMap config) {
  LoraOptions options;
  options.adapter = config.String("adapter", "");
  options.lora_dropout = config.Double("lora_dropout", options.lora_dropout, {.min = 0, .max = 0.999});
  options.r = config.Int("r", options.r, {.min = 1, .max = 65536});
  options.lora_alpha = config.Double("lora_alpha", options.lora_alpha, {.min = 1e-6});
  options.use_rslora = config.Bool("use_rslora", options.use_rslora);
  options.target_modules = config.StringList("target_modules", {});
  options.modules_to_save = config.StringList("modules_to_save", {});
  const bool has_adapter = !options.adapter.empty();
  for (const char* key : {"r", "lora_alpha", "use_rslora", "target_modules", "modules_to_save"}) {
    if (has_adapter && config.Has(key)) config.Reject(key, "the adapter's configuration says it: leave it out");
  }
  if (!has_adapter && options.target_modules.empty())
    config.Reject("target_modules", "required: names of linear layers such as [q_proj, v_proj], or all-linear");
  return [options] { return std::make_unique<Lora>(options); };
}

// When it is applied makes no difference to the result; here it is always when the model is made.
template <typename LowPrecision>
AlgorithmFactory ReadLowPrecision(ConfigMap config) {
  config.Choice("apply_at", {"init", "before_load", "after_load"}, "init");
  return [] { return std::make_unique<LowPrecision>(); };
}

AlgorithmFactory ReadNoOpModel(ConfigMap /*config*/) {
  return [] { return std::make_unique<NoOpModel>(); };
}

AlgorithmFactory ReadProgressiveLayerDropping(ConfigMap config) {
  LayerDroppingOptions options;
  options.theta = config.Double("theta", options.theta, {.min = 0, .max = 1});
  options.gamma = config.Double("gamma", options.gamma, {.min = 0});
  if (const absl::Status valid = Validate(options); !valid.ok()) config.Reject("", valid.message());
  return [options] { return std::make_unique<ProgressiveLayerDropping>(options); };
}

AlgorithmFactory ReadQkNorm(ConfigMap config) {
  const double eps = config.Double("eps", 1e-6, {.min = 0});
  return [eps] { return std::make_unique<QkNorm>(eps); };
}

AlgorithmFactory ReadReluSquared(ConfigMap config) {
  const std::vector<std::string> replace = config.StringList("replace", {"gelu"});
  for (const std::string& kind : replace) {
    if (kind != "gelu" && kind != "relu" && kind != "silu")
      config.Reject("replace", absl::StrCat("`", kind, "`, allowed are gelu, relu and silu"));
  }
  return [replace] { return std::make_unique<ReluSquared>(replace); };
}

AlgorithmFactory ReadSqueezeExcite(ConfigMap config) {
  SqueezeExciteOptions options;
  options.latent_channels = config.Double("latent_channels", options.latent_channels, {.min = 1e-6});
  options.min_channels = config.Int("min_channels", options.min_channels, {.min = 0});
  return [options] { return std::make_unique<SqueezeExcite>(options); };
}

AlgorithmFactory ReadStochasticDepth(ConfigMap config) {
  StochasticDepthOptions options;
  options.target_layer_name = config.Choice("target_layer_name", {"ResNetBasicBlock", "ResNetBottleneck"}, "");
  options.by_sample = config.Choice("stochastic_method", {"block", "sample"}, "block") == "sample";
  options.drop_rate = config.Double("drop_rate", options.drop_rate, {.min = 0, .max = 1});
  options.linear = config.Choice("drop_distribution", {"linear", "uniform"}, "linear") == "linear";
  const std::string warmup = config.Time("drop_warmup", "0.0dur");
  if (!absl::SimpleAtod(warmup, &options.drop_warmup)) {
    const Time time = ReadTime(config, "drop_warmup", "0.0dur");
    if (time.unit() == TimeUnit::kDuration) {
      options.drop_warmup = time.value();
    } else {
      config.Reject("drop_warmup", "must be a part of the run, such as 0.1dur");
    }
  }
  if (const absl::Status valid = Validate(options); !valid.ok()) config.Reject("", valid.message());
  return [options] { return std::make_unique<StochasticDepth>(options); };
}

AlgorithmFactory ReadValueEmbeddings(ConfigMap config) {
  const int64_t layers = config.Int("num_layers", 3, {.min = 1});
  return [layers] { return std::make_unique<ValueEmbeddings>(layers); };
}

AlgorithmFactory ReadWeightStandardization(ConfigMap config) {
  const int64_t ignored = config.Int("n_last_layers_ignore", 0, {.min = 0});
  return [ignored] { return std::make_unique<WeightStandardization>(ignored); };
}

AlgorithmFactory ReadWhiteningConv(ConfigMap config) {
  WhiteningConvOptions options;
  options.kernel_size = config.Int("kernel_size", options.kernel_size, {.min = 1, .max = 7});
  options.eps = config.Double("eps", options.eps, {.min = 1e-12});
  options.samples = config.Int("samples", options.samples, {.min = 1});
  options.layer = config.String("layer", "");
  return [options] { return std::make_unique<WhiteningConv>(options); };
}

AlgorithmFactory ReadZeroInit(ConfigMap config) {
  ZeroInitOptions options;
  options.layers = config.StringList("layers", options.layers);
  if (options.layers.empty()) config.Reject("layers", "expected at least one pattern");
  return [options] { return std::make_unique<ZeroInit>(options); };
}

}  // namespace

std::vector<AlgorithmRow> SurgeryRows() {
  return {{"alibi", ReadAlibi},
          {"blurpool", ReadBlurPool},
          {"channels_last", ReadChannelsLast},
          {"factorize", ReadFactorize},
          {"fused_layernorm", ReadLowPrecision<LowPrecisionLayerNorm>},
          {"gated_linear_units", ReadGatedLinearUnits},
          {"ghost_batchnorm", ReadGhostBatchNorm},
          {"gyro_dropout", ReadGyroDropout},
          {"logit_soft_cap", ReadLogitSoftCap},
          {"lora", ReadLora},
          {"low_precision_groupnorm", ReadLowPrecision<LowPrecisionGroupNorm>},
          {"low_precision_layernorm", ReadLowPrecision<LowPrecisionLayerNorm>},
          {"no_op_model", ReadNoOpModel},
          {"progressive_layer_dropping", ReadProgressiveLayerDropping},
          {"qk_norm", ReadQkNorm},
          {"relu_squared", ReadReluSquared},
          {"squeeze_excite", ReadSqueezeExcite},
          {"stochastic_depth", ReadStochasticDepth},
          {"value_embeddings", ReadValueEmbeddings},
          {"weight_standardization", ReadWeightStandardization},
          {"whitening_conv", ReadWhiteningConv},
          {"zero_init", ReadZeroInit}};
}

}  // namespace composer

// Tests the key `algorithms` of a job's YAML: names, keys, defaults, mistakes.
// SPDX-License-Identifier: Apache-2.0
#include "job/job_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<AlgorithmFactory> Read(const std::string& yaml, std::string& message) {
  const ConfigNode document = ParseYaml(yaml, "job.yaml").value();
  ConfigReader reader(document);
  std::vector<AlgorithmFactory> factories = ReadAlgorithms(reader.root(), document, {}, /*composer_compat=*/false);
  message = std::string(reader.Finish().message());
  return factories;
}

TEST(JobAlgorithms, Ema) {
  for (const char* arguments :
       {"", "{}", "{half_life: 100ba}", "{half_life: 2ep}",
        "{half_life: 100ba, update_interval: 20ba, ema_start: 0.5dur}", "{half_life: null, smoothing: 0.99}",
        "{smoothing: 0.99, update_interval: 1ep, ema_start: 1000sp}"}) {
    SCOPED_TRACE(arguments);
    std::string message;
    const auto factories = Read(std::string("algorithms: {ema: ") + arguments + "}", message);
    EXPECT_THAT(message, IsEmpty());
    ASSERT_EQ(factories.size(), 1u);
    EXPECT_EQ(factories[0]()->name(), "EMA");
  }
}

TEST(JobAlgorithms, SurgeryIsRequiredOnLoadAndMadeAgainFromItsOrigin) {
  std::string message;
  const auto factories = Read(
      "algorithms: [{blurpool: {blur_first: false}}, low_precision_layernorm, {squeeze_excite: {latent_channels: "
      "0.5}}]",
      message);
  EXPECT_THAT(message, IsEmpty());
  ASSERT_EQ(factories.size(), 3u);
  const char* names[] = {"BlurPool", "LowPrecisionLayerNorm", "SqueezeExcite"};
  const char* arguments[] = {"{\"blur_first\":false}", "null", "{\"latent_channels\":0.5}"};
  for (size_t i = 0; i < 3; ++i) {
    const auto algorithm = factories[i]();
    EXPECT_EQ(algorithm->name(), names[i]);
    EXPECT_TRUE(algorithm->required_on_load());
    EXPECT_EQ(algorithm->origin().arguments, arguments[i]);
    const auto again = MakeAlgorithm(algorithm->origin(), {}, false);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->name(), names[i]);
    EXPECT_EQ((*again)->origin().arguments, arguments[i]);
  }
  EXPECT_THAT(MakeAlgorithm({"blurpol", "null", ""}, {}, false).status().message(),
              HasSubstr("did you mean `blurpool`?"));
  EXPECT_THAT(MakeAlgorithm({"blurpool", "{\"size\": 3}", ""}, {}, false).status().message(), HasSubstr("unknown key"));
}

TEST(JobAlgorithms, KeysAndNamesAreComposers) {
  const std::pair<const char*, const char*> rows[] = {
      {"{colout: {p_row: 0.2, p_col: 0, batch: true, resize_target: auto}}", "ColOut"},
      {"{colout: {resize_target: true}}", "ColOut"},
      {"{cutmix: {alpha: 0.5, interpolate_loss: true, uniform_sampling: true}}", "CutMix"},
      {"{cutout: {num_holes: 2, length: 0.25, uniform_sampling: true}}", "CutOut"},
      {"{progressive_resizing: {mode: crop, initial_scale: 0.3, finetune_fraction: 0.1, delay_fraction: 0.4, "
       "size_increment: 2, resize_targets: true}}",
       "ProgressiveResizing"},
      {"{seq_length_warmup: {duration: 0.2, min_seq_length: 4, max_seq_length: 64, step_size: 4, truncate: true, "
       "preserve_end_of_sequence: true}}",
       "SeqLengthWarmup"},
      {"{alibi: {max_sequence_length: 64, train_sequence_length_scaling: 0.5}}", "Alibi"},
      {"[channels_last]", "ChannelsLast"},
      {"{factorize: {factorize_convs: true, factorize_linears: false, min_channels: 8, latent_channels: 0.5, "
       "min_features: 8, latent_features: 4, svd_init: true}}",
       "Factorize"},
      {"[fused_layernorm]", "LowPrecisionLayerNorm"},
      {"{gated_linear_units: {act_fn: relu, gated_layer_bias: true, non_gated_layer_bias: true}}", "GatedLinearUnits"},
      {"{ghost_batchnorm: {ghost_batch_size: 16}}", "GhostBatchNorm"},
      {"{gyro_dropout: {p: 0.4, sigma: 128, tau: 8}}", "GyroDropout"},
      {"{low_precision_groupnorm: {apply_at: before_load}}", "LowPrecisionGroupNorm"},
      {"{no_op_model: }", "NoOpModel"},
      {"{stochastic_depth: {target_layer_name: ResNetBasicBlock, stochastic_method: block, drop_rate: 0.1, "
       "drop_distribution: uniform, drop_warmup: 0.1dur}}",
       "StochasticDepth"},
      {"{stochastic_depth: {target_layer_name: ResNetBottleneck, drop_warmup: 0.1}}", "StochasticDepth"},
      {"{swa: {swa_start: 0.5dur, swa_end: 0.9dur, update_interval: 2ba, schedule_swa_lr: true, anneal_strategy: "
       "cosine, anneal_steps: 3, swa_lr: 0.1}}",
       "SWA"},
      {"{weight_standardization: {n_last_layers_ignore: 2}}", "WeightStandardization"},
      {"[alternating_flip]", "AlternatingFlip"},
      {"{batch_size_warmup: {start: 0.25, duration: 0.2}}", "BatchSizeWarmup"},
      {"[cautious_weight_decay]", "CautiousWeightDecay"},
      {"{lawa: {k: 3, interval: 100ba, lawa_start: 0.1dur}}", "LAWA"},
      {"{logit_soft_cap: {cap: 15, layer: \"*.head\"}}", "LogitSoftCap"},
      {"{progressive_layer_dropping: {theta: 0.6, gamma: 50}}", "ProgressiveLayerDropping"},
      {"{qk_norm: {eps: 1.0e-5}}", "QkNorm"},
      {"{relu_squared: {replace: [gelu, silu]}}", "ReluSquared"},
      {"{value_embeddings: {num_layers: 2}}", "ValueEmbeddings"},
      {"{whitening_conv: {kernel_size: 3, eps: 1.0e-3, samples: 100, layer: conv1}}", "WhiteningConv"},
      {"{z_loss: {weight: 1.0e-3}}", "ZLoss"},
      {"{zero_init: {layers: [\"*.proj\"]}}", "ZeroInit"},
  };
  for (const auto& [yaml, name] : rows) {
    std::string message;
    const auto factories = Read(std::string("algorithms: ") + yaml, message);
    EXPECT_THAT(message, IsEmpty()) << yaml;
    ASSERT_EQ(factories.size(), 1u) << yaml;
    EXPECT_EQ(factories[0]()->name(), name);
  }
}

TEST(JobAlgorithms, MistakesAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"{ema: {half_life: 100ba, smoothing: 0.9}}", "algorithms.ema: smoothing: 0.9 and half_life: 100ba"},
      {"{ema: {half_life: 100ba, update_interval: 1ep}}", "algorithms.ema: update_interval: 1ep and half_life: 100ba"},
      {"{ema: {half_life: 10sp}}", "algorithms.ema: half_life: 10sp, allowed are batches"},
      {"{ema: {half_life: soon}}", "algorithms.ema.half_life"},
      {"{ema: {smoothing: 1.5}}", "algorithms.ema.smoothing: must be at most 1, got 1.5"},
      {"{ema: {smoothing: much}}", "algorithms.ema.smoothing: expected a number, got `much`"},
      {"{ema: {half_live: 10ba}}", "algorithms.ema.half_live: unknown key (did you mean `half_life`?)"},
      {"{emma: {}}", "`emma` is not one of the 42 names that docs/configuration.md lists (did you mean `ema`?)"},
      {"{blurpool: {replace_convs: false, replace_maxpools: false}}", "algorithms.blurpool: replace_convs and"},
      {"{colout: {batch: false, resize_target: true}}", "algorithms.colout: resize_target: true goes only with"},
      {"{colout: {p_row: 1}}", "algorithms.colout: p_row: 1, it must be at least 0 and below 1"},
      {"{cutout: {length: 2}}", "algorithms.cutout.length: must be at most 1"},
      {"{progressive_resizing: {mode: shrink}}", "algorithms.progressive_resizing.mode"},
      {"{progressive_resizing: {delay_fraction: 0.9}}", "algorithms.progressive_resizing: delay_fraction: 0.9"},
      {"{seq_length_warmup: {max_seq_length: 4}}", "algorithms.seq_length_warmup: max_seq_length: 4"},
      {"{batch_size_warmup: {start: 0}}", "algorithms.batch_size_warmup: start: 0, it must be above 0 and at most 1"},
      {"{lawa: {k: 0}}", "algorithms.lawa.k: must be at least 1"},
      {"{lawa: {interval: 10sp}}", "algorithms.lawa: interval: 10sp, it must be in batches (ba) or epochs (ep)"},
      {"{logit_soft_cap: {cap: 0}}", "algorithms.logit_soft_cap.cap: must be at least 1e-06"},
      {"{progressive_layer_dropping: {theta: 0}}", "algorithms.progressive_layer_dropping: theta: 0, it must be above"},
      {"{qk_norm: {eps: -1}}", "algorithms.qk_norm.eps"},
      {"{relu_squared: {replace: [tanh]}}", "algorithms.relu_squared.replace: `tanh`, allowed are gelu, relu and silu"},
      {"{value_embeddings: {num_layers: 0}}", "algorithms.value_embeddings.num_layers: must be at least 1"},
      {"{whitening_conv: {kernel_size: 8}}", "algorithms.whitening_conv.kernel_size: must be at most 7"},
      {"{whitening_conv: {eps: 0}}", "algorithms.whitening_conv.eps"},
      {"{z_loss: {weight: 0}}", "algorithms.z_loss.weight: must be above 0"},
      {"{zero_init: {layers: []}}", "algorithms.zero_init.layers: expected at least one pattern"},
      {"{alibi: {}}", "algorithms.alibi.max_sequence_length"},
      {"{gated_linear_units: {act_fn: tanh}}", "algorithms.gated_linear_units.act_fn"},
      {"{gyro_dropout: {p: 1}}", "algorithms.gyro_dropout.p: must be at most 0.999"},
      {"{stochastic_depth: {target_layer_name: Bottleneck}}", "algorithms.stochastic_depth.target_layer_name"},
      {"{stochastic_depth: {target_layer_name: ResNetBasicBlock, drop_warmup: 10ba}}",
       "algorithms.stochastic_depth.drop_warmup"},
      {"{stochastic_depth: {target_layer_name: ResNetBasicBlock, stochastic_method: sample, drop_warmup: 0.2}}",
       "drop_warmup: 0.2, it must be 0 with stochastic_method: sample"},
      {"{swa: {swa_start: 1ep}}", "algorithms.swa: swa_end: 0.97dur, it must have the unit of swa_start"},
      {"{squeeze_excite: {latent_channels: 0}}", "algorithms.squeeze_excite.latent_channels: must be at least 1e-06"},
      {"{low_precision_layernorm: {apply_at: fit_start}}", "algorithms.low_precision_layernorm.apply_at"}};
  for (const auto& [yaml, expected] : rows) {
    std::string message;
    Read(std::string("algorithms: ") + yaml, message);
    EXPECT_THAT(message, HasSubstr(expected));
  }
}

}  // namespace
}  // namespace composer

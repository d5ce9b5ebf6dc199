// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/graph_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace composer {
namespace {

// Algorithms that leave all decisions of a step to the device: they clip by kernels, change the model before the run,
// or act between steps. Others may draw on the host which layer is left out, or look at a batch.
constexpr absl::string_view kGraphAlgorithms[] = {
    "Alibi",
    "BlurPool",
    "ChannelsLast",
    "EMA",
    "Factorize",
    "GatedLinearUnits",
    "GradientClipping",
    "LAWA",
    "LogitSoftCap",
    "LoRA",
    "LowPrecisionGroupNorm",
    "LowPrecisionLayerNorm",
    "NoOpModel",
    "QkNorm",
    "ReluSquared",
    "SqueezeExcite",
    "SWA",
    "WeightStandardization",
    "ZeroInit",
};

bool MayBeCaptured(const std::string& algorithm) {
  return std::find(std::begin(kGraphAlgorithms), std::end(kGraphAlgorithms), algorithm) != std::end(kGraphAlgorithms);
}

}  // namespace

std::string WhyNoGraphs(const GraphFacts& facts) {
  if (!facts.device_captures) return "this device has no graphs";
  if (facts.on_default_stream) return "training runs on the device's default stream, which cannot be captured";
  if (facts.sums_on_host) {
    return "the sums over ranks need the host: with tensor_parallel_degree, ddp_sync_strategy: multi_auto_sync and "
           "parameters offloaded to the CPU";
  }
  if (facts.fp16_scaler) return "the scaler of precision: amp_fp16 changes its scale on the host; use amp_bf16";
  if (facts.auto_microbatch) return "device_train_microbatch_size: auto changes what a step launches";
  if (facts.on_tokens) return "accumulate_train_batch_on_tokens weights microbatches by counts that the host reads";
  if (facts.elastic) return "determinism: elastic sums on the host";
  if (facts.wraps_activations)
    return "activation checkpointing and offload keep states and memory of the host for each step";
  if (facts.transforms_microbatch) return "the data has functions of its own for microbatches";
  if (!facts.host_optimizer.empty())
    return absl::StrCat("the update of ", facts.host_optimizer, " is decided on the host; Adam, AdamW, DecoupledAdamW ",
                        "and SGD without dampening decide on the device");
  for (const std::string& algorithm : facts.algorithms) {
    if (!MayBeCaptured(algorithm)) return absl::StrCat("the algorithm ", algorithm, " decides on the host");
  }
  for (const std::string& callback : facts.step_callbacks)
    return absl::StrCat("the callback ", callback, " acts inside a step");
  return "";
}

GraphAction NextGraphAction(bool has_graph, int64_t steps, int64_t graphs) {
  if (has_graph) return GraphAction::kReplay;
  if (steps < kGraphWarmUpSteps || graphs >= kMostGraphs) return GraphAction::kEager;
  return GraphAction::kCapture;
}

}  // namespace composer

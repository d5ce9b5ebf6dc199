// How near each layer of a model comes to what the machine can do. A layer that computes F floating-point operations
// and moves B bytes takes at least max(F / peak of products, B / peak of memory) seconds; its share of the peak is that
// bound over the time that it took. Pure.
//
// Source: Williams, Waterman & Patterson 2009, "Roofline: an insightful visual performance model".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/profiler/machine_peaks.h"

namespace composer {

enum class LayerPass { kForward, kBackward, kUpdate };

// What a layer did in a pass of all recorded batches.
struct LayerWork {
  std::string layer;  // "transformer.blocks.0.mlp.fc"; "(optimizer)" and "(other)" for what belongs to none
  LayerPass pass = LayerPass::kForward;
  double seconds = 0;
  double fp32_flops = 0, bf16_flops = 0;  // of products of matrices, convolutions and attention; two per multiply-add
  double bytes = 0;                       // tensors that its operators read or wrote, each once per operator
};

struct RooflineRow {
  LayerWork work;         // of one batch
  bool computes = false;  // products are its bound, else memory is
  double share = 0;       // of the peak; above 1 where the tensors stay in a cache, which is faster than memory
};

struct Roofline {
  MachinePeaks peaks;
  int64_t batches = 0;
  double batch_seconds = 0;  // of a recorded batch, all in all
  double share = 0;          // the sum of all bounds over batch_seconds
  std::vector<RooflineRow> rows;
};

// `works` in the order in which the rows shall come; `seconds`: of the recorded batches.
Roofline MakeRoofline(const MachinePeaks& peaks, const std::vector<LayerWork>& works, int64_t batches, double seconds);

// Returns a table; `title` is like "rank 0, ep0-ba5".
std::string RooflineText(const Roofline& roofline, const std::string& title);
// Returns {"threads", "peaks": {"fp32_flops", "bf16_flops", "bytes"}, "batches", "batch_seconds", "share", "layers":
// [{"layer", "pass", "seconds", "fp32_flops", "bf16_flops", "bytes", "bound": "compute" or "memory", "share"}]}, rates
// per second, the rest per batch.
std::string RooflineJson(const Roofline& roofline);
// Returns one line for the log.
std::string RooflineLine(const Roofline& roofline);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/roofline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"

namespace composer {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

const char* NameOf(LayerPass pass) {
  return pass == LayerPass::kForward ? "forward" : pass == LayerPass::kBackward ? "backward" : "update";
}

const char* BoundOf(const RooflineRow& row) { return row.computes ? "compute" : "memory"; }

double Flops(const LayerWork& work) { return work.fp32_flops + work.bf16_flops; }

}  // namespace

Roofline MakeRoofline(const MachinePeaks& peaks, const std::vector<LayerWork>& works, int64_t batches, double seconds) {
  Roofline roofline{peaks, batches, 0, 0, {}};
  const auto count = static_cast<double>(std::max<int64_t>(1, batches));
  double bounds = 0;
  for (const LayerWork& all : works) {
    RooflineRow& row = roofline.rows.emplace_back();
    row.work = all;
    for (double LayerWork::* part :
         {&LayerWork::seconds, &LayerWork::fp32_flops, &LayerWork::bf16_flops, &LayerWork::bytes})
      row.work.*part /= count;
    const double compute = Ratio(row.work.fp32_flops, peaks.fp32_flops) + Ratio(row.work.bf16_flops, peaks.bf16_flops);
    const double memory = Ratio(row.work.bytes, peaks.bytes);
    row.computes = compute > memory;
    row.share = Ratio(std::max(compute, memory), row.work.seconds);
    bounds += std::max(compute, memory);
  }
  roofline.batch_seconds = seconds / count;
  roofline.share = Ratio(bounds, roofline.batch_seconds);
  return roofline;
}

std::string RooflineText(const Roofline& roofline, const std::string& title) {
  const MachinePeaks& peaks = roofline.peaks;
  std::string text = absl::StrFormat(
      "%s: %d batches, %.3f ms each; %.0f %% of the machine's peak\n"
      "peaks measured with %d threads: %.1f GFLOP/s fp32, %.1f GFLOP/s bf16, %.1f GB/s\n"
      "%-44s %-8s %9s %6s %9s %9s %8s %-7s %6s\n",
      title, roofline.batches, roofline.batch_seconds * 1e3, roofline.share * 100, peaks.threads,
      peaks.fp32_flops * 1e-9, peaks.bf16_flops * 1e-9, peaks.bytes * 1e-9, "layer", "pass", "ms", "% time", "MFLOP",
      "MB", "GFLOP/s", "bound", "% peak");
  double known = 0;
  for (const RooflineRow& row : roofline.rows) {
    const LayerWork& work = row.work;
    known += work.seconds;
    absl::StrAppendFormat(&text, "%-44s %-8s %9.3f %6.1f %9.2f %9.2f %8.1f %-7s %6.1f\n", work.layer, NameOf(work.pass),
                          work.seconds * 1e3, Ratio(work.seconds, roofline.batch_seconds) * 100, Flops(work) * 1e-6,
                          work.bytes * 1e-6, Ratio(Flops(work), work.seconds) * 1e-9, BoundOf(row), row.share * 100);
  }
  absl::StrAppendFormat(&text, "%-44s %-8s %9.3f %6.1f\n", "(outside of operators)", "",
                        (roofline.batch_seconds - known) * 1e3,
                        Ratio(roofline.batch_seconds - known, roofline.batch_seconds) * 100);
  return text;
}

std::string RooflineJson(const Roofline& roofline) {
  nlohmann::json layers = nlohmann::json::array();
  for (const RooflineRow& row : roofline.rows) {
    const LayerWork& work = row.work;
    layers.push_back({{"layer", work.layer},
                      {"pass", NameOf(work.pass)},
                      {"seconds", work.seconds},
                      {"fp32_flops", work.fp32_flops},
                      {"bf16_flops", work.bf16_flops},
                      {"bytes", work.bytes},
                      {"bound", BoundOf(row)},
                      {"share", row.share}});
  }
  const MachinePeaks& peaks = roofline.peaks;
  const nlohmann::json json = {
      {"threads", peaks.threads},
      {"peaks", {{"fp32_flops", peaks.fp32_flops}, {"bf16_flops", peaks.bf16_flops}, {"bytes", peaks.bytes}}},
      {"batches", roofline.batches},
      {"batch_seconds", roofline.batch_seconds},
      {"share", roofline.share},
      {"layers", layers}};
  return json.dump(1) + "\n";
}

std::string RooflineLine(const Roofline& roofline) {
  std::string line = absl::StrFormat("%.0f %% of the machine's measured peak (%.1f GFLOP/s fp32, %.1f bf16, %.1f GB/s)",
                                     roofline.share * 100, roofline.peaks.fp32_flops * 1e-9,
                                     roofline.peaks.bf16_flops * 1e-9, roofline.peaks.bytes * 1e-9);
  const auto lost = [&](const RooflineRow& row) { return row.work.seconds * (1 - std::min(1.0, row.share)); };
  const auto worst = std::max_element(roofline.rows.begin(), roofline.rows.end(),
                                      [&](const RooflineRow& a, const RooflineRow& b) { return lost(a) < lost(b); });
  if (worst == roofline.rows.end()) return line;
  absl::StrAppendFormat(&line, "; the most to gain: %s, %s, %.2f ms at %.0f %%", worst->work.layer,
                        NameOf(worst->work.pass), worst->work.seconds * 1e3, worst->share * 100);
  return line;
}

}  // namespace composer

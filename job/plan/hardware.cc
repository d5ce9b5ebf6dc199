// SPDX-License-Identifier: Apache-2.0
#include "job/plan/hardware.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"

namespace composer {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kFarthest = 4;  // as a ratio of parameters

constexpr GpuKind kGpus[] = {
    {"h200-141", "NVIDIA H200", 131.3 * kGiB},
    {"h100-80", "NVIDIA H100 80GB HBM3", 79.6 * kGiB},
    {"h100-pcie-80", "NVIDIA H100 PCIe", 79.6 * kGiB},
    {"a100-80", "NVIDIA A100-SXM4-80GB", 79.3 * kGiB},
    {"a100-40", "NVIDIA A100-SXM4-40GB", 39.4 * kGiB},
    {"a10g-24", "NVIDIA A10G", 22.5 * kGiB},
    {"l40s-48", "NVIDIA L40S", 44.5 * kGiB},
    {"l4-24", "NVIDIA L4", 22.5 * kGiB},
    {"v100-32", "Tesla V100-SXM2-32GB", 31.7 * kGiB},
    {"v100-16", "Tesla V100-SXM2-16GB", 15.8 * kGiB},
    {"t4-16", "Tesla T4", 14.6 * kGiB},
};

// All read in November 2026.
constexpr char kFoundry[] = "llm-foundry, scripts/train/benchmarking";
constexpr MeasuredTraining kTrainings[] = {
    {"h100-80", 124e6, 0.41, "GPT-2 124M on 8, 1,024 tokens", "llm.c, modded-nanogpt's log of 2024-10-13"},
    {"h100-80", 760e6, 0.349, "MPT 760M on 8, 2,048 tokens", kFoundry},
    {"h100-80", 1.3e9, 0.418, "MPT 1B on 8, 2,048 tokens", kFoundry},
    {"h100-80", 2.7e9, 0.437, "MPT 3B on 16, 2,048 tokens", kFoundry},
    {"h100-80", 6.7e9, 0.464, "MPT 7B on 8, 2,048 tokens", kFoundry},
    {"h100-80", 13e9, 0.398, "MPT 13B on 8, 2,048 tokens", kFoundry},
    {"h100-80", 30e9, 0.439, "MPT 30B on 32, 2,048 tokens", kFoundry},
    {"h100-80", 70e9, 0.426, "MPT 70B on 64, 2,048 tokens", kFoundry},
    {"a100-80", 125e6, 0.448, "MPT 125M on 8, 2,048 tokens", kFoundry},
    {"a100-80", 350e6, 0.516, "MPT 350M on 8, 2,048 tokens", kFoundry},
    {"a100-80", 760e6, 0.569, "MPT 760M on 8, 2,048 tokens", kFoundry},
    {"a100-80", 1.3e9, 0.599, "MPT 1B on 8, 2,048 tokens", kFoundry},
    {"a100-80", 2.7e9, 0.621, "MPT 3B on 8, 2,048 tokens", kFoundry},
    {"a100-80", 6.7e9, 0.642, "MPT 7B on 8, 2,048 tokens", kFoundry},
    {"a100-80", 13e9, 0.596, "MPT 13B on 8, 2,048 tokens", kFoundry},
    {"a100-80", 30e9, 0.553, "MPT 30B on 8, 2,048 tokens", kFoundry},
    {"a100-80", 70e9, 0.533, "MPT 70B on 64, 2,048 tokens", kFoundry},
    {"a100-40", 1.3e9, 0.562, "MPT 1B on 8, 2,048 tokens", kFoundry},
    {"a100-40", 2.7e9, 0.578, "MPT 3B on 8, 2,048 tokens", kFoundry},
    {"a100-40", 6.7e9, 0.509, "MPT 7B on 8, 2,048 tokens", kFoundry},
};

}  // namespace

std::vector<std::string> GpuNames() {
  std::vector<std::string> names;
  for (const GpuKind& gpu : kGpus) names.emplace_back(gpu.name);
  return names;
}

absl::StatusOr<GpuKind> FindGpu(absl::string_view name) {
  for (const GpuKind& gpu : kGpus) {
    if (gpu.name == name) return gpu;
  }
  const std::vector<std::string> names = GpuNames();
  return absl::InvalidArgumentError(
      absl::StrCat("unknown GPU `", name, "`", DidYouMean(name, names), "; known: ", absl::StrJoin(names, ", ")));
}

const MeasuredTraining* NearestTraining(const GpuKind& gpu, double parameters) {
  const MeasuredTraining* nearest = nullptr;
  double distance = std::log(kFarthest);
  for (const MeasuredTraining& training : kTrainings) {
    const double far = std::abs(std::log(training.parameters / parameters));
    if (training.gpu != absl::string_view(gpu.name) || far > distance) continue;
    nearest = &training;
    distance = far;
  }
  return nearest;
}

}  // namespace composer

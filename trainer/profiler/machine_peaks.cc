// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/machine_peaks.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>

namespace composer {
namespace {

// Returns the fewest seconds of several calls, the first of which does not count.
template <typename Fn>
double FewestSeconds(int calls, const Fn& fn) {
  fn();
  double fewest = 1e30;
  for (int i = 0; i < calls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    fn();
    fewest = std::min(fewest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fewest;
}

double ProductFlops(at::ScalarType type) {
  constexpr int64_t kSize = 1024;
  const at::Tensor a = at::ones({kSize, kSize}, type), b = at::ones({kSize, kSize}, type);
  at::Tensor out = at::empty({kSize, kSize}, type);
  return 2.0 * kSize * kSize * kSize / FewestSeconds(5, [&] { at::mm_out(out, a, b); });
}

double BytesPerSecond() {
  constexpr int64_t kElements = int64_t{1} << 24;
  const at::Tensor a = at::ones({kElements}), b = at::ones({kElements});
  at::Tensor out = at::zeros({kElements});
  return 3.0 * kElements * sizeof(float) / FewestSeconds(5, [&] { at::add_out(out, a, b); });
}

}  // namespace

MachinePeaks MeasureMachinePeaks() {
  const torch::NoGradGuard no_grad;
  MachinePeaks peaks;
  peaks.threads = at::get_num_threads();
  peaks.fp32_flops = ProductFlops(at::kFloat);
  peaks.bf16_flops = ProductFlops(at::kBFloat16);
  peaks.bytes = BytesPerSecond();
  return peaks;
}

}  // namespace composer

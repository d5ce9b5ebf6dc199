// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/norms/power_sum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "trainer/parallel/fsdp/flat_layout.h"

namespace composer {
namespace {

constexpr int64_t kLanes = 8;
static_assert(kFlatAlignment % kLanes == 0);

// Requires n <= kFlatAlignment. The lanes let the compiler use vectors without changing the order.
template <typename T, typename Power>
double RunSum(const T* x, int64_t n, const Power& power) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += power(static_cast<double>(x[i + lane]));
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += power(static_cast<double>(x[i]));
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <typename T, typename Power>
void AddRuns(const at::Tensor& flat, const Power& power, ExactSum& sum) {
  const T* data = static_cast<const T*>(flat.const_data_ptr());
  const int64_t count = flat.numel();
  for (int64_t begin = 0; begin < count; begin += kFlatAlignment)
    sum.Add(RunSum(data + begin, std::min(kFlatAlignment, count - begin), power));
}

template <typename Power>
void AddAll(const at::Tensor& tensor, const Power& power, ExactSum& sum) {
  const at::Tensor flat = tensor.detach().reshape(-1);
  if (flat.scalar_type() == at::kDouble) {
    AddRuns<double>(flat, power, sum);
  } else {
    AddRuns<float>(flat.to(at::kFloat), power, sum);
  }
}

}  // namespace

void AddPowers(const at::Tensor& tensor, double p, ExactSum& sum) {
  if (p == 2) {
    AddAll(tensor, [](double x) { return x * x; }, sum);
  } else if (p == 1) {
    AddAll(tensor, [](double x) { return std::fabs(x); }, sum);
  } else {
    AddAll(tensor, [p](double x) { return std::pow(std::fabs(x), p); }, sum);
  }
}

double SquaresOfRun(const float* x, int64_t n) {
  return RunSum(x, n, [](double value) { return value * value; });
}

}  // namespace composer

// AdamW of many tensors in one pass over memory: 16 bytes read and 12 written for each element, and 2 more for a copy.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "worker/cuda/kernels/lanes.h"
#include "worker/cuda/kernels/launches.h"

namespace composer::device {
namespace {

constexpr int kThreads = 256, kLane = 4;  // elements of a thread at a time
constexpr int64_t kChunk = 16 * 1024;     // elements of a block
constexpr int kTensors = 48;              // of a launch: the table must fit into the 4 KiB of a kernel's arguments

struct Table {
  AdamWTensor tensors[kTensors];
  int first_block[kTensors + 1];
};

struct Scalars {
  float lr, beta1, beta2, weight_decay, eps;
  const float* found_inf;
};

template <typename T>
struct alignas(sizeof(T) * kLane) Lane {
  T v[kLane];
};

struct Corrections {
  float step_size, root;  // lr / (1 - beta1^step), sqrt(1 - beta2^step)
};

__device__ inline void Update(const Scalars& s, const Corrections& c, float g, float& p, float& m, float& v) {
  p -= s.lr * s.weight_decay * p;
  m += (1 - s.beta1) * (g - m);
  v = s.beta2 * v + (1 - s.beta2) * g * g;
  p -= c.step_size * m / (sqrtf(v) / c.root + s.eps);
}

template <bool kVector>
__device__ inline void UpdateLane(const AdamWTensor& t, int64_t at, const Scalars& s, const Corrections& c) {
  if (kVector && at + kLane <= t.size) {
    Lane<float> p = *reinterpret_cast<Lane<float>*>(t.param + at), m = *reinterpret_cast<Lane<float>*>(t.exp_avg + at),
                v = *reinterpret_cast<Lane<float>*>(t.exp_avg_sq + at);
    const Lane<float> g = *reinterpret_cast<const Lane<float>*>(t.grad + at);
#pragma unroll
    for (int i = 0; i < kLane; ++i) Update(s, c, g.v[i], p.v[i], m.v[i], v.v[i]);
    *reinterpret_cast<Lane<float>*>(t.param + at) = p;
    *reinterpret_cast<Lane<float>*>(t.exp_avg + at) = m;
    *reinterpret_cast<Lane<float>*>(t.exp_avg_sq + at) = v;
    if (t.copy != nullptr)
      *reinterpret_cast<uint2*>(t.copy + at) = make_uint2(WordOf(p.v, Bf16{}), WordOf(p.v + 2, Bf16{}));
    return;
  }
  for (int64_t i = at; i < at + kLane && i < t.size; ++i) {
    Update(s, c, t.grad[i], t.param[i], t.exp_avg[i], t.exp_avg_sq[i]);
    if (t.copy != nullptr) t.copy[i] = FromFloat<Bf16>(t.param[i]);
  }
}

template <bool kVector>
__global__ void __launch_bounds__(kThreads) AdamW(Table table, Scalars scalars) {
  if (scalars.found_inf != nullptr && *scalars.found_inf != 0) return;
  int which = 0;
  while (static_cast<int>(blockIdx.x) >= table.first_block[which + 1]) ++which;
  const AdamWTensor& tensor = table.tensors[which];
  __shared__ Corrections corrections;
  if (threadIdx.x == 0) {
    const double step = *tensor.step;
    corrections.step_size = static_cast<float>(scalars.lr / (1 - pow(static_cast<double>(scalars.beta1), step)));
    corrections.root = static_cast<float>(sqrt(1 - pow(static_cast<double>(scalars.beta2), step)));
  }
  __syncthreads();
  const Corrections mine = corrections;
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) - table.first_block[which]) * kChunk;
  for (int64_t lane = threadIdx.x; lane < kChunk / kLane && begin + lane * kLane < tensor.size; lane += kThreads)
    UpdateLane<kVector>(tensor, begin + lane * kLane, scalars, mine);
}

bool IsAligned(const AdamWTensor& tensor) {
  const auto fits = [](const void* pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; };
  return fits(tensor.param, 16) && fits(tensor.grad, 16) && fits(tensor.exp_avg, 16) && fits(tensor.exp_avg_sq, 16) &&
         fits(tensor.copy, 8);
}

}  // namespace

void LaunchAdamW(const AdamWTensor* tensors, int64_t count, const AdamWScalars& scalars, Stream stream) {
  const Scalars given{static_cast<float>(scalars.lr),    static_cast<float>(scalars.beta1),
                      static_cast<float>(scalars.beta2), static_cast<float>(scalars.weight_decay),
                      static_cast<float>(scalars.eps),   scalars.found_inf};
  for (int64_t first = 0; first < count; first += kTensors) {
    Table table = {};
    const int used = static_cast<int>(std::min<int64_t>(kTensors, count - first));
    bool aligned = true;
    for (int i = 0; i < used; ++i) {
      table.tensors[i] = tensors[first + i];
      aligned = aligned && IsAligned(tensors[first + i]);
      const auto blocks = static_cast<int>((tensors[first + i].size + kChunk - 1) / kChunk);
      table.first_block[i + 1] = table.first_block[i] + blocks;
    }
    const int blocks = table.first_block[used];
    if (blocks == 0) continue;
    Launch(aligned ? AdamW<true> : AdamW<false>, dim3(blocks), dim3(kThreads), stream, table, given);
  }
}

}  // namespace composer::device

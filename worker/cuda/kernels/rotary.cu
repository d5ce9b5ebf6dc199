// Rotary positions: both halves of each head's vector in one pass over memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "worker/cuda/kernels/lanes.h"
#include "worker/cuda/kernels/launches.h"

namespace composer::device {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 8192;

// kEach elements of each half a thread at a time: kWide in packs, or one.
template <typename T, int kEach>
struct alignas(sizeof(T) * kEach) Run {
  T v[kEach];
};

template <typename T, int kEach>
__global__ void __launch_bounds__(kThreads) Rotate(Rotation call) {
  const int64_t half = call.width / 2, runs = half / kEach;
  const int64_t all = call.batch * call.heads * call.tokens * runs;
  for (int64_t index = blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x; index < all;
       index += gridDim.x * static_cast<int64_t>(kThreads)) {
    const int64_t run = index % runs, vector = index / runs;
    const int64_t head = vector % call.heads, token = vector / call.heads % call.tokens;
    const int64_t batch = vector / call.heads / call.tokens;
    const T* x = static_cast<const T*>(call.x) + batch * call.x_strides[0] + head * call.x_strides[1] +
                 token * call.x_strides[2] + run * kEach;
    T* y = static_cast<T*>(call.y) + batch * call.y_strides[0] + head * call.y_strides[1] + token * call.y_strides[2] +
           run * kEach;
    const int64_t table = batch * call.table_strides[0] + token * call.table_strides[1] + run * kEach;
    const T *cos = static_cast<const T*>(call.cos) + table, *sin = static_cast<const T*>(call.sin) + table;
    using Part = Run<T, kEach>;
    const auto read = [](const T* from) { return *reinterpret_cast<const Part*>(from); };
    const Part a = read(x), b = read(x + half);
    const Part cos_a = read(cos), cos_b = read(cos + half), sin_a = read(sin), sin_b = read(sin + half);
    float to_a[kEach], to_b[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float first = ToFloat(a.v[i]), second = ToFloat(b.v[i]);
      // Forward: a cos - b sin, b cos + a sin; back: the transpose.
      const float a_sin = call.back ? ToFloat(sin_b.v[i]) : -ToFloat(sin_a.v[i]);
      const float b_sin = call.back ? -ToFloat(sin_a.v[i]) : ToFloat(sin_b.v[i]);
      to_a[i] = first * ToFloat(cos_a.v[i]) + second * a_sin;
      to_b[i] = second * ToFloat(cos_b.v[i]) + first * b_sin;
    }
    if constexpr (kEach == kWide) {
      StorePack(y, to_a);
      StorePack(y + half, to_b);
    } else {
      *y = FromFloat<T>(to_a[0]);
      y[half] = FromFloat<T>(to_b[0]);
    }
  }
}

bool InPacks(const Rotation& call) {
  bool whole = call.width / 2 % kWide == 0 && ArePacks(call.x, call.cos, call.sin, call.y);
  for (const int64_t stride : call.x_strides) whole = whole && stride % kWide == 0;
  for (const int64_t stride : call.y_strides) whole = whole && stride % kWide == 0;
  for (const int64_t stride : call.table_strides) whole = whole && stride % kWide == 0;
  return whole;
}

}  // namespace

void LaunchRotation(const Rotation& call, Stream stream) {
  const bool packs = InPacks(call);
  const int64_t all = call.batch * call.heads * call.tokens * (call.width / 2 / (packs ? kWide : 1));
  if (all == 0) return;
  void (*run)(Rotation) = nullptr;
  if (call.type == Type::kFloat) {
    run = packs ? Rotate<float, kWide> : Rotate<float, 1>;
  } else {
    run = packs ? Rotate<Bf16, kWide> : Rotate<Bf16, 1>;
  }
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (all + kThreads - 1) / kThreads));
  Launch(run, dim3(blocks), dim3(kThreads), stream, call);
}

}  // namespace composer::device

// GELU of x + bias, and silu(gate) * up, forward and backward, each in one pass over memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "worker/cuda/kernels/lanes.h"
#include "worker/cuda/kernels/launches.h"

namespace composer::device {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 8192;

// ---- GELU. A block has kColumnLanes lanes of kWide columns, and kRowLanes rows at a time.
constexpr int kColumnLanes = 32, kRowLanes = kThreads / kColumnLanes;
constexpr int64_t kParts = 64;  // blocks along the rows, each with its own sums of dbias

constexpr float kRootHalf = 0.70710678118654752F, kRootTwoOverPi = 0.79788456080286536F, kCube = 0.044715F;

__device__ inline float Gelu(float x, bool by_tanh) {
  if (by_tanh) return 0.5F * x * (1 + tanhf(kRootTwoOverPi * (x + kCube * x * x * x)));
  return 0.5F * x * (1 + erff(x * kRootHalf));
}

__device__ inline float GeluSlope(float x, bool by_tanh) {
  if (by_tanh) {
    const float t = tanhf(kRootTwoOverPi * (x + kCube * x * x * x));
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCube * x * x);
  }
  return 0.5F * (1 + erff(x * kRootHalf)) + x * 0.5F * kRootTwoOverPi * expf(-0.5F * x * x);
}

struct GeluArguments {
  int64_t rows, width;
  bool by_tanh;
  const void *x, *bias, *dy;  // dy: null for forward
  void* y;                    // or dx
  float* dbias;
};

template <bool kVector>
__device__ inline int64_t ColumnOf(int i) {
  const int64_t lane = threadIdx.x % kColumnLanes, first = static_cast<int64_t>(blockIdx.x) * kColumnLanes * kWide;
  return kVector ? first + lane * kWide + i : first + static_cast<int64_t>(i) * kColumnLanes + lane;
}

template <bool kVector, typename T>
__device__ inline void LoadColumns(const T* row, int64_t width, float (&x)[kWide]) {
  if constexpr (kVector) {
    Pack<T> pack = {};
    if (ColumnOf<kVector>(0) < width) pack = *reinterpret_cast<const Pack<T>*>(row + ColumnOf<kVector>(0));
#pragma unroll
    for (int i = 0; i < kWide; ++i) x[i] = ToFloat(pack.v[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kWide; ++i) x[i] = ColumnOf<kVector>(i) < width ? ToFloat(row[ColumnOf<kVector>(i)]) : 0.0F;
  }
}

template <bool kVector, typename T>
__device__ inline void StoreColumns(T* row, int64_t width, const float (&x)[kWide]) {
  if constexpr (kVector) {
    if (ColumnOf<kVector>(0) < width) StorePack(row + ColumnOf<kVector>(0), x);
  } else {
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      if (ColumnOf<kVector>(i) < width) row[ColumnOf<kVector>(i)] = FromFloat<T>(x[i]);
    }
  }
}

template <typename T, bool kVector, bool kBackward>
__global__ void __launch_bounds__(kThreads) BiasGelu(GeluArguments call) {
  const int row_lane = static_cast<int>(threadIdx.x) / kColumnLanes;
  float bias[kWide], sums[kWide] = {};
  LoadColumns<kVector>(static_cast<const T*>(call.bias), call.width, bias);
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * kRowLanes + row_lane; row < call.rows;
       row += static_cast<int64_t>(gridDim.y) * kRowLanes) {
    float x[kWide], dy[kWide];
    LoadColumns<kVector>(static_cast<const T*>(call.x) + row * call.width, call.width, x);
    if (kBackward) LoadColumns<kVector>(static_cast<const T*>(call.dy) + row * call.width, call.width, dy);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float at = x[i] + bias[i];
      x[i] = kBackward ? dy[i] * GeluSlope(at, call.by_tanh) : Gelu(at, call.by_tanh);
      if (kBackward) sums[i] += x[i];
    }
    StoreColumns<kVector>(static_cast<T*>(call.y) + row * call.width, call.width, x);
  }
  if (!kBackward) return;
  __shared__ float of_lanes[kRowLanes][kColumnLanes * kWide];
  const int lane = static_cast<int>(threadIdx.x) % kColumnLanes;
#pragma unroll
  for (int i = 0; i < kWide; ++i) of_lanes[row_lane][i * kColumnLanes + lane] = sums[i];
  __syncthreads();
  if (row_lane != 0) return;
#pragma unroll
  for (int i = 0; i < kWide; ++i) {
    for (int other = 1; other < kRowLanes; ++other) sums[i] += of_lanes[other][i * kColumnLanes + lane];
  }
  StoreColumns<kVector>(call.dbias + static_cast<int64_t>(blockIdx.y) * call.width, call.width, sums);
}

template <bool kBackward>
void StartGelu(const GeluCall& call, const void* dy, void* y, float* dbias, Stream stream) {
  if (call.rows == 0) return;
  const GeluArguments arguments{call.rows, call.width, call.tanh, call.x, call.bias, dy, y, dbias};
  const bool vector = call.width % kWide == 0 && ArePacks(call.x, call.bias, dy, y, dbias);
  const auto tiles = static_cast<unsigned>((call.width + kColumnLanes * kWide - 1) / (kColumnLanes * kWide));
  const auto parts = static_cast<unsigned>(GeluParts(call.rows));
  void (*run)(GeluArguments) = nullptr;
  if (call.type == Type::kFloat) {
    run = vector ? BiasGelu<float, true, kBackward> : BiasGelu<float, false, kBackward>;
  } else {
    run = vector ? BiasGelu<Bf16, true, kBackward> : BiasGelu<Bf16, false, kBackward>;
  }
  Launch(run, dim3(tiles, parts), dim3(kThreads), stream, arguments);
}

// ---- SwiGLU: kWide elements a thread at a time.
struct GluArguments {
  int64_t size;
  const void *dy, *gate, *up;
  void *y, *dgate, *dup;
};

__device__ inline float Sigmoid(float x) { return 1 / (1 + expf(-x)); }

// By elements of a whole tensor: the row is as wide as the block's threads can take in a turn.
template <typename T, bool kVector, bool kBackward>
__global__ void __launch_bounds__(kThreads) SwiGlu(GluArguments call) {
  constexpr int64_t kTile = static_cast<int64_t>(kThreads) * kWide;
  for (int64_t begin = blockIdx.x * kTile; begin < call.size; begin += gridDim.x * kTile) {
    const int64_t width = call.size - begin < kTile ? call.size - begin : kTile;
    float gate[kWide], up[kWide], y[kWide];
    LoadTurn<kVector>(static_cast<const T*>(call.gate) + begin, 0, width, gate);
    LoadTurn<kVector>(static_cast<const T*>(call.up) + begin, 0, width, up);
    if (!kBackward) {
#pragma unroll
      for (int i = 0; i < kWide; ++i) y[i] = Rounded<T>(gate[i] * Sigmoid(gate[i])) * up[i];
      StoreTurn<kVector>(static_cast<T*>(call.y) + begin, 0, width, y);
      continue;
    }
    float dy[kWide];
    LoadTurn<kVector>(static_cast<const T*>(call.dy) + begin, 0, width, dy);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float s = Sigmoid(gate[i]);
      y[i] = dy[i] * Rounded<T>(gate[i] * s);                             // of up
      gate[i] = Rounded<T>(dy[i] * up[i]) * s * (1 + gate[i] * (1 - s));  // of gate
    }
    StoreTurn<kVector>(static_cast<T*>(call.dgate) + begin, 0, width, gate);
    StoreTurn<kVector>(static_cast<T*>(call.dup) + begin, 0, width, y);
  }
}

template <bool kBackward>
void StartGlu(Type type, const GluArguments& call, Stream stream) {
  if (call.size == 0) return;
  constexpr int64_t kTile = static_cast<int64_t>(kThreads) * kWide;
  const bool vector = call.size % kWide == 0 && ArePacks(call.dy, call.gate, call.up, call.y, call.dgate, call.dup);
  void (*run)(GluArguments) = nullptr;
  if (type == Type::kFloat) {
    run = vector ? SwiGlu<float, true, kBackward> : SwiGlu<float, false, kBackward>;
  } else {
    run = vector ? SwiGlu<Bf16, true, kBackward> : SwiGlu<Bf16, false, kBackward>;
  }
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (call.size + kTile - 1) / kTile));
  Launch(run, dim3(blocks), dim3(kThreads), stream, call);
}

}  // namespace

int64_t GeluParts(int64_t rows) { return std::min(kParts, (rows + kRowLanes - 1) / kRowLanes); }

void LaunchBiasGelu(const GeluCall& call, void* y, Stream stream) {
  StartGelu<false>(call, nullptr, y, nullptr, stream);
}

void LaunchBiasGeluBackward(const GeluCall& call, const void* dy, void* dx, float* dbias, Stream stream) {
  StartGelu<true>(call, dy, dx, dbias, stream);
}

void LaunchSwiGlu(Type type, int64_t size, const void* gate, const void* up, void* y, Stream stream) {
  StartGlu<false>(type, {size, nullptr, gate, up, y, nullptr, nullptr}, stream);
}

void LaunchSwiGluBackward(Type type, int64_t size, const void* dy, const void* gate, const void* up, void* dgate,
                          void* dup, Stream stream) {
  StartGlu<true>(type, {size, dy, gate, up, nullptr, dgate, dup}, stream);
}

}  // namespace composer::device

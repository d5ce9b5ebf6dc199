// The cross-entropy of rows of logits, each read once; backward reads them once and writes the gradient in their place.
// SPDX-License-Identifier: Apache-2.0
#include "worker/cuda/kernels/lanes.h"
#include "worker/cuda/kernels/launches.h"

namespace composer::device {
namespace {

constexpr int kThreads = 512;

struct Arguments {
  int64_t classes, ignore_index;
  const void* logits;
  const int64_t* targets;
  float *loss, *lse;
  const float* dloss;
};

// The largest x of the block, which each thread gets.
__device__ inline float BlockMax(float x) {
  __shared__ float of_warps[32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, distance));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) x = fmaxf(x, of_warps[warp]);
  return x;
}

// One block a row. Each thread keeps the largest logit that it has seen, and the sum of exp(logit - largest).
template <typename T, bool kVector>
__global__ void __launch_bounds__(kThreads) Forward(Arguments call) {
  const int64_t row = blockIdx.x;
  const T* logits = static_cast<const T*>(call.logits) + row * call.classes;
  const int64_t turns = (call.classes + kThreads * kWide - 1) / (kThreads * kWide);
  float largest = -INFINITY, sum[1] = {0};
  for (int turn = 0; turn < turns; ++turn) {
    float x[kWide];
    LoadTurn<kVector>(logits, turn, call.classes, x);
    float here = largest;
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      if (PlaceOf<kVector>(turn, i) < call.classes) here = fmaxf(here, x[i]);
    }
    if (here == -INFINITY) continue;
    sum[0] *= expf(largest - here);
    largest = here;
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      if (PlaceOf<kVector>(turn, i) < call.classes) sum[0] += expf(x[i] - largest);
    }
  }
  const float of_row = BlockMax(largest);
  sum[0] *= largest == -INFINITY ? 0.0F : expf(largest - of_row);
  BlockSum(sum);
  if (threadIdx.x != 0) return;
  const float lse = of_row + logf(sum[0]);
  const int64_t target = call.targets[row];
  const bool valid = target >= 0 && target < call.classes;
  call.lse[row] = lse;
  // A target that is not a class makes the loss NaN, which the run reports.
  call.loss[row] = target == call.ignore_index ? 0.0F : valid ? lse - ToFloat(logits[target]) : NAN;
}

template <typename T, bool kVector>
__global__ void __launch_bounds__(kThreads) Backward(Arguments call, void* gradient) {
  const int64_t row = blockIdx.x, target = call.targets[row];
  T* logits = static_cast<T*>(gradient) + row * call.classes;
  const float lse = call.lse[row], scale = target == call.ignore_index ? 0.0F : call.dloss[row];
  const int64_t turns = (call.classes + kThreads * kWide - 1) / (kThreads * kWide);
  for (int turn = 0; turn < turns; ++turn) {
    float x[kWide];
    LoadTurn<kVector>(logits, turn, call.classes, x);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float hit = PlaceOf<kVector>(turn, i) == target ? 1.0F : 0.0F;
      x[i] = scale == 0 ? 0.0F : (expf(x[i] - lse) - hit) * scale;
    }
    StoreTurn<kVector>(logits, turn, call.classes, x);
  }
}

}  // namespace

void LaunchCrossEntropy(const EntropyShape& shape, const void* logits, const int64_t* targets, float* loss, float* lse,
                        Stream stream) {
  if (shape.rows == 0) return;
  const Arguments call{shape.classes, shape.ignore_index, logits, targets, loss, lse, nullptr};
  const bool vector = shape.classes % kWide == 0 && ArePacks(logits);
  void (*run)(Arguments) = nullptr;
  if (shape.type == Type::kFloat) {
    run = vector ? Forward<float, true> : Forward<float, false>;
  } else {
    run = vector ? Forward<Bf16, true> : Forward<Bf16, false>;
  }
  Launch(run, dim3(static_cast<unsigned>(shape.rows)), dim3(kThreads), stream, call);
}

void LaunchCrossEntropyBackward(const EntropyShape& shape, void* logits, const int64_t* targets, const float* lse,
                                const float* dloss, Stream stream) {
  if (shape.rows == 0) return;
  const Arguments call{shape.classes, shape.ignore_index, logits, targets, nullptr, const_cast<float*>(lse), dloss};
  const bool vector = shape.classes % kWide == 0 && ArePacks(logits);
  void (*run)(Arguments, void*) = nullptr;
  if (shape.type == Type::kFloat) {
    run = vector ? Backward<float, true> : Backward<float, false>;
  } else {
    run = vector ? Backward<Bf16, true> : Backward<Bf16, false>;
  }
  Launch(run, dim3(static_cast<unsigned>(shape.rows)), dim3(kThreads), stream, call, logits);
}

}  // namespace composer::device

// Layer norm and RMS norm, with the residual branch that is added before: forward reads each element once and writes it
// once, backward the same, and sums the weights' gradients on the way.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "worker/cuda/kernels/lanes.h"
#include "worker/cuda/kernels/launches.h"

namespace composer::device {
namespace {

// Blocks of backward: each goes over rows / kParts of the rows with its sums in registers.
constexpr int64_t kParts = 512;
static_assert(kNormWidth == 2 * kWide * kMostThreads && kNormPack == kWide);

struct ForwardCall {
  const void *x, *branch, *weight, *bias;
  void *sum, *y;
  float *mean, *rstd;
  int64_t width;
  float eps;
  bool centred;
};

// One block a row, whose elements stay in registers.
template <typename Wide, typename Narrow, int kTurns, bool kVector>
__global__ void __launch_bounds__(kMostThreads) Forward(ForwardCall call) {
  const int64_t row = blockIdx.x, width = call.width, begin = row * width;
  float x[kTurns][kWide];
  float total[1] = {0};
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    LoadTurn<kVector>(static_cast<const Wide*>(call.x) + begin, turn, width, x[turn]);
    if (call.branch != nullptr) {
      float branch[kWide];
      LoadTurn<kVector>(static_cast<const Narrow*>(call.branch) + begin, turn, width, branch);
#pragma unroll
      for (int i = 0; i < kWide; ++i) x[turn][i] = Rounded<Wide>(x[turn][i] + branch[i]);
      StoreTurn<kVector>(static_cast<Wide*>(call.sum) + begin, turn, width, x[turn]);
    }
#pragma unroll
    for (int i = 0; i < kWide; ++i) total[0] += x[turn][i];
  }
  float mean = 0;
  if (call.centred) {
    BlockSum(total);
    mean = total[0] / static_cast<float>(width);
  }
  float squares[1] = {0};
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float from_mean = PlaceOf<kVector>(turn, i) < width ? x[turn][i] - mean : 0.0F;
      squares[0] += from_mean * from_mean;
    }
  }
  BlockSum(squares);
  const float rstd = rsqrtf(squares[0] / static_cast<float>(width) + call.eps);
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    float weight[kWide], bias[kWide] = {};
    LoadTurn<kVector>(static_cast<const Wide*>(call.weight), turn, width, weight);
    if (call.bias != nullptr) LoadTurn<kVector>(static_cast<const Wide*>(call.bias), turn, width, bias);
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const float scaled = (x[turn][i] - mean) * rstd;
      x[turn][i] = (call.centred ? scaled : Rounded<Wide>(scaled)) * weight[i] + bias[i];
    }
    StoreTurn<kVector>(static_cast<Narrow*>(call.y) + begin, turn, width, x[turn]);
  }
  if (threadIdx.x == 0) {
    call.mean[row] = mean;
    call.rstd[row] = rstd;
  }
}

struct BackwardCall {
  const void *dy, *dsum, *sum, *weight;
  const float *mean, *rstd;
  void *dx, *dbranch;
  float *dweight, *dbias;
  int64_t rows, width;
  bool centred;
};

template <typename Wide, typename Narrow, int kTurns, bool kVector>
__global__ void __launch_bounds__(kMostThreads) Backward(BackwardCall call) {
  const int64_t width = call.width;
  float dweight[kTurns][kWide] = {}, dbias[kTurns][kWide] = {};
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
    const int64_t begin = row * width;
    const float mean = call.mean[row], rstd = call.rstd[row];
    float scaled[kTurns][kWide], g[kTurns][kWide];
    float sums[2] = {0, 0};  // of g, of g * scaled
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      float weight[kWide];
      LoadTurn<kVector>(static_cast<const Wide*>(call.sum) + begin, turn, width, scaled[turn]);
      LoadTurn<kVector>(static_cast<const Narrow*>(call.dy) + begin, turn, width, g[turn]);
      LoadTurn<kVector>(static_cast<const Wide*>(call.weight), turn, width, weight);
#pragma unroll
      for (int i = 0; i < kWide; ++i) {
        scaled[turn][i] = (scaled[turn][i] - mean) * rstd;
        dweight[turn][i] += g[turn][i] * scaled[turn][i];
        dbias[turn][i] += g[turn][i];
        g[turn][i] *= weight[i];  // 0 beyond the width
        sums[0] += g[turn][i];
        sums[1] += g[turn][i] * scaled[turn][i];
      }
    }
    BlockSum(sums);
    const float mean_g = call.centred ? sums[0] / static_cast<float>(width) : 0.0F;
    const float mean_gx = sums[1] / static_cast<float>(width);
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      float dsum[kWide] = {};
      if (call.dsum != nullptr) LoadTurn<kVector>(static_cast<const Wide*>(call.dsum) + begin, turn, width, dsum);
#pragma unroll
      for (int i = 0; i < kWide; ++i) dsum[i] += rstd * (g[turn][i] - mean_g - scaled[turn][i] * mean_gx);
      StoreTurn<kVector>(static_cast<Wide*>(call.dx) + begin, turn, width, dsum);
      if (call.dbranch != nullptr) StoreTurn<kVector>(static_cast<Narrow*>(call.dbranch) + begin, turn, width, dsum);
    }
  }
  const int64_t part = static_cast<int64_t>(blockIdx.x) * width;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    StoreTurn<kVector>(call.dweight + part, turn, width, dweight[turn]);
    if (call.dbias != nullptr) StoreTurn<kVector>(call.dbias + part, turn, width, dbias[turn]);
  }
}

template <typename Call>
struct Kernels {
  void (*run[3][3])(Call);  // by types; of any width in one turn, in packs, in packs in two turns
};
#define COMPOSER_ALL(Kernel)                                                                          \
  {                                                                                                   \
    {                                                                                                 \
      {Kernel<float, float, 1, false>, Kernel<float, float, 1, true>, Kernel<float, float, 2, true>}, \
          {Kernel<Bf16, Bf16, 1, false>, Kernel<Bf16, Bf16, 1, true>, Kernel<Bf16, Bf16, 2, true>}, { \
        Kernel<float, Bf16, 1, false>, Kernel<float, Bf16, 1, true>, Kernel<float, Bf16, 2, true>     \
      }                                                                                               \
    }                                                                                                 \
  }

template <typename Call>
void Start(const Kernels<Call>& kernels, const NormShape& shape, bool aligned, int64_t blocks, const Call& call,
           Stream stream) {
  const int types = shape.narrow == Type::kFloat ? 0 : shape.wide == Type::kBf16 ? 1 : 2;
  const int turns = shape.width <= kNormWidth / 2 ? 1 : 2;
  const bool packs = turns == 2 || (aligned && shape.width % kWide == 0);
  Launch(kernels.run[types][packs ? turns : 0], dim3(static_cast<unsigned>(blocks)),
         dim3(static_cast<unsigned>(ThreadsFor(shape.width, turns))), stream, call);
}

}  // namespace

void LaunchNorm(const NormShape& shape, const NormForward& call, Stream stream) {
  if (shape.rows == 0) return;
  static constexpr Kernels<ForwardCall> kernels = COMPOSER_ALL(Forward);
  const bool aligned = ArePacks(call.x, call.branch, call.weight, call.bias, call.sum, call.y);
  Start(kernels, shape, aligned, shape.rows,
        ForwardCall{call.x, call.branch, call.weight, call.bias, call.sum, call.y, call.mean, call.rstd, shape.width,
                    static_cast<float>(call.eps), shape.centred},
        stream);
}

int64_t NormParts(int64_t rows) { return std::min(rows, kParts); }

void LaunchNormBackward(const NormShape& shape, const NormBackward& call, Stream stream) {
  if (shape.rows == 0) return;
  static constexpr Kernels<BackwardCall> kernels = COMPOSER_ALL(Backward);
  const bool aligned =
      ArePacks(call.dy, call.dsum, call.sum, call.weight, call.dx, call.dbranch, call.dweight, call.dbias);
  Start(kernels, shape, aligned, NormParts(shape.rows),
        BackwardCall{call.dy, call.dsum, call.sum, call.weight, call.mean, call.rstd, call.dx, call.dbranch,
                     call.dweight, call.dbias, shape.rows, shape.width, shape.centred},
        stream);
}
#undef COMPOSER_ALL

}  // namespace composer::device

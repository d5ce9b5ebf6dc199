// Launches of our own kernels: plain pointers into the device's memory, so that nvcc needs nothing of LibTorch
// (operators.cc is between the two). All tensors are contiguous unless strides are given. A launch returns at once and
// reports no error; cudaGetLastError has it. trainer/kernels/operators.h has the formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer::device {

struct Bf16;
using Stream = void*;  // a cudaStream_t

enum class Type { kFloat, kBf16 };

// ---- adamw.cu
struct AdamWTensor {
  float* param;
  const float* grad;
  float* exp_avg;
  float* exp_avg_sq;
  Bf16* copy;         // of param, or null
  const float* step;  // how often it is updated, this time included
  int64_t size;
};
struct AdamWScalars {
  double lr, beta1, beta2, weight_decay, eps;
  const float* found_inf;  // null, or on the device: nothing is updated if it is 1
};
void LaunchAdamW(const AdamWTensor* tensors, int64_t count, const AdamWScalars& scalars, Stream stream);

// ---- norm.cu: over the rows of [rows, width]. x, sum, dsum, dx and the weights are of one type, `wide`; branch, y, dy
// and dbranch of `narrow`; both the same, or float32 and bfloat16.
struct NormShape {
  Type wide, narrow;
  int64_t rows, width;
  bool centred;  // layer norm, else RMS norm
};
// The largest width. One of more than half of it must be a multiple of kNormPack, and the tensors aligned for 32 bytes.
inline constexpr int64_t kNormWidth = 8192, kNormPack = 8;
struct NormForward {
  const void *x, *branch;     // branch may be null
  const void *weight, *bias;  // bias may be null
  double eps;
  void *sum, *y;       // sum: x + branch, if there is one
  float *mean, *rstd;  // [rows]
};
void LaunchNorm(const NormShape& shape, const NormForward& call, Stream stream);
struct NormBackward {
  const void *dy, *dsum;  // dsum may be null
  const void *sum, *weight;
  const float *mean, *rstd;
  void *dx, *dbranch;      // dbranch may be null
  float *dweight, *dbias;  // [NormParts(rows), width], to be summed; dbias may be null
};
int64_t NormParts(int64_t rows);
void LaunchNormBackward(const NormShape& shape, const NormBackward& call, Stream stream);

// ---- activations.cu
struct GeluCall {
  Type type;
  int64_t rows, width;
  bool tanh;
  const void *x, *bias;  // [rows, width], [width]
};
void LaunchBiasGelu(const GeluCall& call, void* y, Stream stream);
// dbias: [GeluParts(rows), width], to be summed.
int64_t GeluParts(int64_t rows);
void LaunchBiasGeluBackward(const GeluCall& call, const void* dy, void* dx, float* dbias, Stream stream);
void LaunchSwiGlu(Type type, int64_t size, const void* gate, const void* up, void* y, Stream stream);
void LaunchSwiGluBackward(Type type, int64_t size, const void* dy, const void* gate, const void* up, void* dgate,
                          void* dup, Stream stream);

// ---- rotary.cu: x and y [batch, heads, tokens, width], the last dimension contiguous; cos and sin
// [batch or 1, 1, tokens, width]. Strides are in elements, of batch, heads and tokens.
struct Rotation {
  Type type;
  int64_t batch, heads, tokens, width;
  const void *x, *cos, *sin;
  void* y;
  int64_t x_strides[3], y_strides[3], table_strides[2];  // of tables: batch, tokens
  bool back;                                             // the transpose: backward
};
void LaunchRotation(const Rotation& call, Stream stream);

// ---- cross_entropy.cu: logits [rows, classes]
struct EntropyShape {
  Type type;
  int64_t rows, classes, ignore_index;
};
void LaunchCrossEntropy(const EntropyShape& shape, const void* logits, const int64_t* targets, float* loss, float* lse,
                        Stream stream);
// Writes the logits' gradient over them. dloss [rows].
void LaunchCrossEntropyBackward(const EntropyShape& shape, void* logits, const int64_t* targets, const float* lse,
                                const float* dloss, Stream stream);

}  // namespace composer::device

// What all kernels use: bfloat16, wide loads and stores, sums over a block.
//
// A kernel file (*.cu) is compiled twice: by nvcc, and by the host's compiler in tests that first include
// tests/support/kernels/execution.h, which gives CUDA's words a meaning there and runs the threads of a block by turns.
// So it uses no more of CUDA than that file has, and no header of CUDA's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer::device {

struct Bf16 {
  uint16_t bits;
};

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(Bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }

// Rounds to nearest, ties to even, as c10::BFloat16 does; NaN stays NaN.
template <typename T>
__device__ inline T FromFloat(float x);
template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ inline Bf16 FromFloat<Bf16>(float x) {
  const uint32_t bits = __float_as_uint(x);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return Bf16{static_cast<uint16_t>(x != x ? 0x7FC0U : rounded)};
}
// What is left of x when it is kept as a T.
template <typename T>
__device__ inline float Rounded(float x) {
  return ToFloat(FromFloat<T>(x));
}

// A thread works on this many elements at a time: 16 bytes of bfloat16, twice 16 of float32.
inline constexpr int kWide = 8;

template <typename T>
struct alignas(sizeof(T) * kWide) Pack {
  T v[kWide];
};

// Two elements of bfloat16, or one of float32, as one word.
__device__ inline uint32_t WordOf(const float* x, Bf16 /*type*/) {
  return FromFloat<Bf16>(x[0]).bits | static_cast<uint32_t>(FromFloat<Bf16>(x[1]).bits) << 16;
}
__device__ inline uint32_t WordOf(const float* x, float /*type*/) { return __float_as_uint(x[0]); }

// Writes kWide elements 16 bytes at a time. CUDA's own vector type, since nvcc splits the stores of a struct at will.
template <typename T>
__device__ inline void StorePack(T* to, const float (&x)[kWide]) {
  constexpr int kInWord = 4 / sizeof(T), kInQuad = 4 * kInWord;
#pragma unroll
  for (int i = 0; i < kWide; i += kInQuad) {
    reinterpret_cast<uint4*>(to)[i / kInQuad] =
        make_uint4(WordOf(x + i, T{}), WordOf(x + i + kInWord, T{}), WordOf(x + i + 2 * kInWord, T{}),
                   WordOf(x + i + 3 * kInWord, T{}));
  }
}

// Whether all pointers can be read and written in packs of any type. Null pointers can.
template <typename... Pointers>
inline bool ArePacks(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % alignof(Pack<float>) == 0) && ...);
}

// A row's elements are dealt to the threads of a block, kWide a turn: with kVector, the width is a multiple of kWide,
// and a thread has neighbours, in one pack; else a thread has every blockDim.x-th, so that neighbours in memory are
// neighbours in time.
template <bool kVector>
__device__ inline int64_t PlaceOf(int turn, int i) {
  if constexpr (kVector) return (static_cast<int64_t>(turn) * blockDim.x + threadIdx.x) * kWide + i;
  return (static_cast<int64_t>(turn) * kWide + i) * blockDim.x + threadIdx.x;
}

// Reads a turn's elements; beyond the width they are 0.
template <bool kVector, typename T>
__device__ inline void LoadTurn(const T* row, int turn, int64_t width, float (&x)[kWide]) {
  if constexpr (kVector) {
    const int64_t place = PlaceOf<kVector>(turn, 0);
    Pack<T> pack = {};
    if (place < width) pack = *reinterpret_cast<const Pack<T>*>(row + place);
#pragma unroll
    for (int i = 0; i < kWide; ++i) x[i] = ToFloat(pack.v[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const int64_t place = PlaceOf<kVector>(turn, i);
      x[i] = place < width ? ToFloat(row[place]) : 0.0F;
    }
  }
}

template <bool kVector, typename T>
__device__ inline void StoreTurn(T* row, int turn, int64_t width, const float (&x)[kWide]) {
  if constexpr (kVector) {
    const int64_t place = PlaceOf<kVector>(turn, 0);
    if (place < width) StorePack(row + place, x);
  } else {
#pragma unroll
    for (int i = 0; i < kWide; ++i) {
      const int64_t place = PlaceOf<kVector>(turn, i);
      if (place < width) row[place] = FromFloat<T>(x[i]);
    }
  }
}

// The sums of kCount numbers over all threads of the block, which each thread gets; always in the same order.
// blockDim.x is a multiple of 32.
template <int kCount>
__device__ inline void BlockSum(float (&x)[kCount]) {
  __shared__ float of_warps[kCount][32];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) x[k] += __shfl_xor_sync(0xFFFFFFFFU, x[k], distance);
  }
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (warps == 1) return;
  __syncthreads();  // the last call's sums have been read
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) of_warps[k][threadIdx.x / 32] = x[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    x[k] = of_warps[k][0];
    for (int warp = 1; warp < warps; ++warp) x[k] += of_warps[k][warp];
  }
}

// Threads of a block for a row, so that `turns` turns cover it: a multiple of 32, at most kMostThreads.
inline constexpr int kMostThreads = 512;
inline int ThreadsFor(int64_t width, int turns) {
  const int64_t lanes = (width + static_cast<int64_t>(kWide) * turns - 1) / (static_cast<int64_t>(kWide) * turns);
  return static_cast<int>((lanes + 31) / 32 * 32);
}

#ifdef __CUDACC__
template <typename... Parameters, typename... Arguments>
void Launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, void* stream, const Arguments&... arguments) {
  kernel<<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
}
#endif

}  // namespace composer::device

// Sixteen float32 numbers at a time for the kernels of a CPU: one register of AVX-512, two of AVX2, and what the
// compiler makes of it elsewhere. Rounding to bfloat16 is to the nearest, ties to even, and NaN stays NaN.
//
// Everything is inlined into the function that calls it and compiled for that function's instructions; RunOnBest
// chooses among these at the first call. The order of all sums is fixed, so that results do not depend on the number of
// threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // nothing here is passed between functions
#endif

namespace composer::kernels {

#define COMPOSER_INLINE [[gnu::always_inline]] inline

constexpr int64_t kLanes = 16;

struct Floats {
  using Raw = float __attribute__((vector_size(64)));
  Raw v;

  COMPOSER_INLINE static Floats All(float x) { return {Raw{} + x}; }
  COMPOSER_INLINE friend Floats operator+(Floats a, Floats b) { return {a.v + b.v}; }
  COMPOSER_INLINE friend Floats operator-(Floats a, Floats b) { return {a.v - b.v}; }
  COMPOSER_INLINE friend Floats operator*(Floats a, Floats b) { return {a.v * b.v}; }
  COMPOSER_INLINE friend Floats operator/(Floats a, Floats b) { return {a.v / b.v}; }
  COMPOSER_INLINE friend Floats operator+(Floats a, float b) { return {a.v + b}; }
  COMPOSER_INLINE friend Floats operator-(Floats a, float b) { return {a.v - b}; }
  COMPOSER_INLINE friend Floats operator*(Floats a, float b) { return {a.v * b}; }
};

using Words = uint32_t __attribute__((vector_size(64)));
using HalfWords = uint16_t __attribute__((vector_size(32)));
using Integers = int32_t __attribute__((vector_size(64)));

// a b + c, rounded once where there is such an instruction, as in LibTorch's kernels.
COMPOSER_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) { return {a.v * b.v + c.v}; }
COMPOSER_INLINE Floats MultiplyAdd(Floats a, Floats b, float c) { return MultiplyAdd(a, b, Floats::All(c)); }
COMPOSER_INLINE Floats MultiplyAdd(Floats a, float b, float c) { return MultiplyAdd(a, Floats::All(b), c); }
// The larger; b where a is NaN.
COMPOSER_INLINE Floats Larger(Floats a, Floats b) { return {a.v > b.v ? a.v : b.v}; }
// Within [low, high]; NaN stays.
COMPOSER_INLINE Floats Within(Floats x, float low, float high) {
  const Floats::Raw bottom = Floats::All(low).v, top = Floats::All(high).v;
  const Floats::Raw raised = x.v < bottom ? bottom : x.v;
  return {raised > top ? top : raised};
}

// exp to 2 units in the last place, of x in [-87, 87]: 2^n exp(r) with |r| <= ln(2) / 2, by Cephes' polynomial.
COMPOSER_INLINE Floats Exp(Floats x) {
  constexpr float kToInteger = 12582912.0F;  // 1.5 x 2^23: a sum with it has no fraction
  const Floats n = MultiplyAdd(x, 1.44269504F, kToInteger) - kToInteger;
  const Floats r = MultiplyAdd(n, Floats::All(2.12194440e-4F), MultiplyAdd(n, Floats::All(-0.693359375F), x));
  Floats p = MultiplyAdd(r, 1.9875691500e-4F, 1.3981999507e-3F);
  p = MultiplyAdd(p, r, 8.3334519073e-3F);
  p = MultiplyAdd(p, r, 4.1665795894e-2F);
  p = MultiplyAdd(p, r, 1.6666665459e-1F);
  p = MultiplyAdd(p, r, 5.0000001201e-1F);
  const Integers exponent = (__builtin_convertvector(n.v, Integers) + 127) << 23;
  Floats power;
  std::memcpy(&power, &exponent, sizeof(power));
  return MultiplyAdd(p, r * r, r + 1.0F) * power;
}

// Of all lanes, by halves.
COMPOSER_INLINE float Sum(Floats x) {
  float lanes[kLanes];
  std::memcpy(lanes, &x, sizeof(lanes));
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

COMPOSER_INLINE float Largest(Floats x) {
  float lanes[kLanes];
  std::memcpy(lanes, &x, sizeof(lanes));
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] = lanes[i] > lanes[i + half] ? lanes[i] : lanes[i + half];
  }
  return lanes[0];
}

COMPOSER_INLINE Floats LoadAll(const float* from) {
  Floats x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
COMPOSER_INLINE Floats LoadAll(const uint16_t* from) {  // bfloat16
  HalfWords narrow;
  std::memcpy(&narrow, from, sizeof(narrow));
  const Words bits = __builtin_convertvector(narrow, Words) << 16;
  Floats x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

COMPOSER_INLINE void StoreAll(Floats x, float* to) { std::memcpy(to, &x, sizeof(x)); }
COMPOSER_INLINE void StoreAll(Floats x, uint16_t* to) {  // bfloat16
  Words bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const Words rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const Words chosen = x.v != x.v ? Words{} + 0x7FC0U : rounded;
  const HalfWords narrow = __builtin_convertvector(chosen, HalfWords);
  std::memcpy(to, &narrow, sizeof(narrow));
}

// The first `count` of them; the other lanes are 0.
template <typename T>
COMPOSER_INLINE Floats Load(const T* from, int64_t count) {
  if (count >= kLanes) return LoadAll(from);
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return LoadAll(lanes);
}
template <typename T>
COMPOSER_INLINE void Store(Floats x, T* to, int64_t count) {
  if (count >= kLanes) return StoreAll(x, to);
  T lanes[kLanes];
  StoreAll(x, lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// Work is a type with `static void Run(arguments…)`, itself always inlined.
template <typename Work, typename... Args>
void RunPlainly(Args... args) {
  Work::Run(args...);
}
#if defined(__x86_64__)
template <typename Work, typename... Args>
[[gnu::target("avx2,fma")]] void RunOnAvx2(Args... args) {
  Work::Run(args...);
}
template <typename Work, typename... Args>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,fma")]] void RunOnAvx512(Args... args) {
  Work::Run(args...);
}
#endif

// Calls Work::Run, compiled for the best instructions that this machine has.
template <typename Work, typename... Args>
void RunOnBest(Args... args) {
  using Function = void (*)(Args...);
  static const Function function = []() -> Function {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      return &RunOnAvx512<Work, Args...>;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &RunOnAvx2<Work, Args...>;
#endif
    return &RunPlainly<Work, Args...>;
  }();
  function(args...);
}

// Calls Work::Run by several threads, each with `all` and the rows `begin` to `end` that it is to do.
template <typename Work, typename Rows>
void RunRows(const Rows& all, int64_t rows, int64_t numbers_of_row) {
  constexpr int64_t kNumbersOfThread = 16384;
  const int64_t grain = std::max<int64_t>(1, kNumbersOfThread / std::max<int64_t>(1, numbers_of_row));
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    Rows part = all;
    part.begin = begin;
    part.end = end;
    RunOnBest<Work, const Rows&>(part);
  });
}

}  // namespace composer::kernels

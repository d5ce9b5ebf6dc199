// CUDA's words for the host's compiler, so that a test can include a kernel file (*.cu) and run it: each thread of a
// block is a fiber, and fibers change only where threads wait for each other, in an order that a seed chooses. What
// must not depend on the order of threads is then seen to. __shared__ memory is static and starts each block with
// what the last one left, as on a device.
//
// One device thread at a time, no warp runs in lock-step, no cache, no speed. Memory that a kernel touches outside its
// tensors is the address sanitizer's to find: give tensors of their own size (malloc), not parts of a larger one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)

struct dim3 {
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  unsigned x, y, z;
};

// Of the fiber that runs.
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }

namespace composer::execution {

// The order in which threads take their turns from here on; 0: by index.
void SetOrder(uint64_t seed);
// How many blocks have run since the program began, and how often a thread has waited for others.
int64_t BlocksRun();
int64_t Waits();

// Runs the body once for each thread of each block. Ends the program when threads wait for some that have ended.
void RunGrid(dim3 blocks, dim3 threads, const std::function<void()>& body);
void WaitForBlock();
float Exchange(float mine, int distance);  // with the thread of the warp whose lane differs in these bits

}  // namespace composer::execution

inline void __syncthreads() { composer::execution::WaitForBlock(); }
inline float __shfl_xor_sync(unsigned /*mask*/, float mine, int distance) {
  return composer::execution::Exchange(mine, distance);
}
inline float __uint_as_float(uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline uint32_t __float_as_uint(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

namespace composer::device {
template <typename... Parameters, typename... Arguments>
void Launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, void* /*stream*/, const Arguments&... arguments) {
  execution::RunGrid(blocks, threads, [&] { kernel(arguments...); });
}
}  // namespace composer::device

// SPDX-License-Identifier: Apache-2.0
#include "tests/support/kernels/execution.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define COMPOSER_FIBERS_OF_ASAN
#endif
#endif

namespace composer::execution {
namespace {

constexpr size_t kStack = 128 * 1024;
constexpr unsigned kWarp = 32;

enum class At { kRunning, kBlock, kWarp, kEnd };

struct Fiber {
  Fiber() { getcontext(&context); }  // a system call, so once
  ucontext_t context;
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStack);
  At at = At::kRunning;
  float value = 0;  // shown to the warp
  void* fake_stack = nullptr;
};

struct Machine {
  ucontext_t scheduler;
  std::vector<std::unique_ptr<Fiber>> fibers;  // kept from block to block
  std::vector<unsigned> order;
  unsigned count = 0, running = 0;
  const std::function<void()>* body = nullptr;
  std::mt19937_64 random;
  bool shuffled = false;
  int64_t blocks = 0, waits = 0;
  const void* stack = nullptr;  // the scheduler's
  size_t stack_size = 0;
  void* fake_stack = nullptr;
};

Machine& The() {
  static Machine& machine = *new Machine;
  return machine;
}

void Suspend(At at) {
  Machine& m = The();
  Fiber& fiber = *m.fibers[m.running];
  fiber.at = at;
#ifdef COMPOSER_FIBERS_OF_ASAN
  __sanitizer_start_switch_fiber(at == At::kEnd ? nullptr : &fiber.fake_stack, m.stack, m.stack_size);
#endif
  swapcontext(&fiber.context, &m.scheduler);
#ifdef COMPOSER_FIBERS_OF_ASAN
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &m.stack, &m.stack_size);
#endif
}

void Begin() {
  Machine& m = The();
#ifdef COMPOSER_FIBERS_OF_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &m.stack, &m.stack_size);
  // The sanitizer has cleared what it knew of this stack, and would clear it again at every switch to it.
  m.fibers[m.running]->context.uc_stack.ss_size = 0;
#endif
  (*m.body)();
  Suspend(At::kEnd);
}

void Resume(unsigned index) {
  Machine& m = The();
  Fiber& fiber = *m.fibers[index];
  m.running = index;
  threadIdx = dim3(index, 0, 0);
  fiber.at = At::kRunning;
#ifdef COMPOSER_FIBERS_OF_ASAN
  __sanitizer_start_switch_fiber(&m.fake_stack, fiber.stack.get(), kStack);
#endif
  swapcontext(&m.scheduler, &fiber.context);
#ifdef COMPOSER_FIBERS_OF_ASAN
  __sanitizer_finish_switch_fiber(m.fake_stack, nullptr, nullptr);
#endif
}

void Prepare(Fiber& fiber) {
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = nullptr;
  fiber.at = At::kRunning;
  makecontext(&fiber.context, &Begin, 0);
}

unsigned Count(At at, unsigned first, unsigned end) {
  const Machine& m = The();
  unsigned found = 0;
  for (unsigned i = first; i < end; ++i) found += m.fibers[i]->at == at ? 1 : 0;
  return found;
}

// Lets go those that wait for what has come: all threads of their warp, or all of the block that have not ended.
bool Release() {
  Machine& m = The();
  bool any = false;
  for (unsigned first = 0; first < m.count; first += kWarp) {
    const unsigned end = std::min(first + kWarp, m.count);
    if (Count(At::kWarp, first, end) != end - first) continue;
    for (unsigned i = first; i < end; ++i) m.fibers[i]->at = At::kRunning;
    any = true;
  }
  const unsigned waiting = Count(At::kBlock, 0, m.count);
  if (waiting == 0 || waiting + Count(At::kEnd, 0, m.count) != m.count) return any;
  for (unsigned i = 0; i < m.count; ++i) {
    if (m.fibers[i]->at == At::kBlock) m.fibers[i]->at = At::kRunning;
  }
  return true;
}

void RunBlock() {
  Machine& m = The();
  for (unsigned i = 0; i < m.count; ++i) Prepare(*m.fibers[i]);
  for (;;) {
    if (m.shuffled) std::shuffle(m.order.begin(), m.order.end(), m.random);
    for (const unsigned i : m.order) {
      if (m.fibers[i]->at == At::kRunning) Resume(i);
    }
    if (Count(At::kEnd, 0, m.count) == m.count) return;
    if (Release()) continue;
    std::fprintf(stderr, "kernel: threads wait for others that have ended or wait elsewhere\n");
    std::abort();
  }
}

}  // namespace

void SetOrder(uint64_t seed) {
  The().random.seed(seed);
  The().shuffled = seed != 0;
}

int64_t BlocksRun() { return The().blocks; }
int64_t Waits() { return The().waits; }

void RunGrid(dim3 blocks, dim3 threads, const std::function<void()>& body) {
  Machine& m = The();
  m.count = threads.x;
  m.body = &body;
  m.order.resize(m.count);
  std::iota(m.order.begin(), m.order.end(), 0U);
  while (m.fibers.size() < m.count) m.fibers.push_back(std::make_unique<Fiber>());
  blockDim = threads;
  gridDim = blocks;
  for (unsigned y = 0; y < blocks.y; ++y) {
    for (unsigned x = 0; x < blocks.x; ++x) {
      blockIdx = dim3(x, y, 0);
      RunBlock();
      ++m.blocks;
    }
  }
}

void WaitForBlock() {
  ++The().waits;
  Suspend(At::kBlock);
}

float Exchange(float mine, int distance) {
  Machine& m = The();
  Fiber& fiber = *m.fibers[m.running];
  const unsigned partner = m.running ^ static_cast<unsigned>(distance);
  fiber.value = mine;
  Suspend(At::kWarp);
  const float theirs = m.fibers[partner]->value;
  Suspend(At::kWarp);  // nobody shows the next value before all have read
  ++m.waits;
  return theirs;
}

}  // namespace composer::execution

// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/random.h"

#include <torch/torch.h>

namespace composer {
namespace {

uint64_t Finalise(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15ULL;

}  // namespace

uint64_t MixSeed(uint64_t seed, uint64_t a, uint64_t b) {
  return Finalise(Finalise(Finalise(seed + kGamma) ^ (a + kGamma)) ^ (b + kGamma));
}

std::mutex& DefaultGeneratorMutex() {
  static std::mutex mutex;
  return mutex;
}

void SeedForConstruction(uint64_t seed) {
  const std::lock_guard<std::mutex> lock(DefaultGeneratorMutex());
  torch::manual_seed(seed);
}

void SeedForStep(uint64_t seed, int rank, int64_t batch) {
  torch::manual_seed(MixSeed(seed, static_cast<uint64_t>(rank), static_cast<uint64_t>(batch)));
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/random.h"

#include <torch/types.h>

namespace composer {
namespace {

uint64_t Finalise(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr uint64_t kGamma = 0x9e3779b97f4a7c15ULL;
// These keep what is drawn for different purposes apart.
constexpr uint64_t kMicrobatchStream = 1, kEventStream = 2, kSampleStream = 3;

}  // namespace

uint64_t MixSeed(uint64_t seed, uint64_t a, uint64_t b) {
  return Finalise(Finalise(Finalise(seed + kGamma) ^ (a + kGamma)) ^ (b + kGamma));
}

std::mutex& DefaultGeneratorMutex() {
  static std::mutex mutex;
  return mutex;
}

uint64_t SampleRandom::Bits() { return MixSeed(seed_, ++drawn_, 0); }

double SampleRandom::Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }

int64_t SampleRandom::Below(int64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>((Wide{Bits()} * static_cast<uint64_t>(count)) >> 64);
}

void SeedForConstruction(uint64_t seed) {
  const std::lock_guard<std::mutex> lock(DefaultGeneratorMutex());
  torch::manual_seed(seed);
}

void SeedForMicrobatch(uint64_t seed, int64_t part, int64_t batch, int64_t microbatch) {
  uint64_t key = MixSeed(seed, static_cast<uint64_t>(part), static_cast<uint64_t>(batch));
  if (microbatch > 0) key = MixSeed(key, kMicrobatchStream, static_cast<uint64_t>(microbatch));
  torch::manual_seed(key);
}

void SeedForEvent(uint64_t seed, int64_t rank, int64_t batch, int event) {
  const uint64_t of_batch = MixSeed(seed, static_cast<uint64_t>(rank), static_cast<uint64_t>(batch));
  torch::manual_seed(MixSeed(of_batch, kEventStream, static_cast<uint64_t>(event)));
}

uint64_t SeedOfSample(uint64_t seed, int64_t epoch, int64_t sample) {
  return MixSeed(MixSeed(seed, kSampleStream, static_cast<uint64_t>(epoch)), 0, static_cast<uint64_t>(sample));
}

}  // namespace composer

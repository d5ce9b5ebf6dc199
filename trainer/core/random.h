// Randomness is a function of the position in the run, so that resuming needs no generator state and the number of
// restarts changes nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

namespace composer {

// Seeds the default generators for building the model, the same on every rank.
void SeedForConstruction(uint64_t seed);
// Guards torch's generator for code that uses and restores it while other ranks, as threads, may seed it for
// construction.
std::mutex& DefaultGeneratorMutex();
// Seeds the default generators for one pass of a training step (dropout): `part` is the data rank, or with
// determinism: elastic the leaf.
void SeedForMicrobatch(uint64_t seed, int64_t part, int64_t batch, int64_t microbatch);
// Seeds them for what algorithms draw at an event that is not inside a pass, by its number in core/event.h.
void SeedForEvent(uint64_t seed, int64_t rank, int64_t batch, int event);
// Returns a seed for what is drawn for one sample (augmentation): the same on any rank, in any batch.
uint64_t SeedOfSample(uint64_t seed, int64_t epoch, int64_t sample);
// Draws numbers for one sample, in order. A plain value; the same seed gives the same numbers on any machine.
class SampleRandom {
 public:
  explicit SampleRandom(uint64_t seed) : seed_(seed) {}
  uint64_t Bits();
  // Uniform in [0, 1).
  double Uniform();
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  // Uniform in [0, count), count > 0 (Lemire 2019, arXiv:1805.10941, without the rejection: the bias is below
  // count / 2^64).
  int64_t Below(int64_t count);
  bool Chance(double probability) { return Uniform() < probability; }

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

// Returns a well-mixed 64-bit function of its arguments (SplitMix64's finaliser, chained). Source: Steele et al. 2014,
// doi:10.1145/2660193.2660195.
uint64_t MixSeed(uint64_t seed, uint64_t a, uint64_t b);

}  // namespace composer

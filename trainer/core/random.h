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
// Seeds the default generators for one training step of one rank (dropout, augmentation, …).
void SeedForStep(uint64_t seed, int rank, int64_t batch);
// Returns a well-mixed 64-bit function of its arguments (SplitMix64's finaliser, chained). Source: Steele et al. 2014,
// doi:10.1145/2660193.2660195.
uint64_t MixSeed(uint64_t seed, uint64_t a, uint64_t b);

}  // namespace composer

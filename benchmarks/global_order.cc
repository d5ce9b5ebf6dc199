// global_order [SAMPLES]: times the order that `shuffle: true` and `order: {name: global}` give (a permutation computed
// by index): making it and reading its first 2048 places, and the same at 70 % of an epoch, as a resumed run does.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "trainer/data/sample_order.h"

namespace {

constexpr int kRounds = 21;

// Returns the median over orders of different seeds, in milliseconds.
double MillisecondsToRead(int64_t samples, int64_t place, size_t count) {
  std::vector<double> times;
  std::vector<int64_t> ids(count);
  for (uint64_t seed = 0; seed < kRounds; ++seed) {
    const auto begin = std::chrono::steady_clock::now();
    composer::MakeShuffledOrder(samples, seed)->Read(/*epoch=*/1, place, absl::MakeSpan(ids));
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t samples = argc > 1 ? std::atoll(argv[1]) : 1'000'000'000;
  std::cout << "first batch of 2048: " << MillisecondsToRead(samples, 0, 2048) << " ms\n"
            << "resume, 2048: " << MillisecondsToRead(samples, samples / 10 * 7, 2048) << " ms\n"
            << "resume, first sample: " << MillisecondsToRead(samples, samples / 10 * 7, 1) << " ms\n";
}

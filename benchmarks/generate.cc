// Measures greedy generation with a GPT of random weights, with its KV cache and without: new tokens per second of all
// rows together.
//   generate LAYERS WIDTH HEADS CONTEXT PROMPT NEW ROWS [ROWS…]
// Prints one line of JSON for each method and number of rows; the second run is measured. Driver:
// benchmarks/generate.py.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/clock.h"
#include "trainer/core/communicator.h"
#include "trainer/loop/generate_loop.h"
#include "trainer/models/gpt.h"

namespace composer {
namespace {

struct Shape {
  int64_t prompt, new_tokens, rows;
};

struct Rate {
  double wall, cpu;  // new tokens per second
};

Rate TokensPerSecond(State& state, const Shape& shape, bool use_cache) {
  TokenLists prompts;
  for (int64_t row = 0; row < shape.rows; ++row) {
    prompts.emplace_back();
    for (int64_t i = 0; i < shape.prompt; ++i) prompts.back().push_back((row * 31 + i * 7) % 256);
  }
  GenerateOptions options;
  options.max_new_tokens = shape.new_tokens;
  options.use_cache = use_cache;
  LocalCommunicator alone;
  const auto tokens = static_cast<double>(shape.rows * shape.new_tokens);
  Rate rate{};
  for (int run = 0; run < 2; ++run) {
    const absl::Time began = RealClock::Get().Now();
    const std::clock_t cpu_began = std::clock();
    GenerateTokens(prompts, options, state, alone);
    rate.cpu = tokens * CLOCKS_PER_SEC / static_cast<double>(std::clock() - cpu_began);
    rate.wall = tokens / absl::ToDoubleSeconds(RealClock::Get().Now() - began);
  }
  return rate;
}

int Main(const std::vector<int64_t>& numbers) {
  if (numbers.size() < 7) {
    std::fprintf(stderr, "usage: generate LAYERS WIDTH HEADS CONTEXT PROMPT NEW ROWS [ROWS…]\n");
    return 64;
  }
  at::set_num_threads(1);
  torch::manual_seed(1);
  State state;
  state.model =
      MakeGpt({.layers = numbers[0], .heads = numbers[2], .width = numbers[1], .context = numbers[3], .vocab = 256});
  for (size_t i = 6; i < numbers.size(); ++i) {
    const Shape shape{numbers[4], numbers[5], numbers[i]};
    for (const bool use_cache : {true, false}) {
      const Rate rate = TokensPerSecond(state, shape, use_cache);
      std::printf(R"({"name": "%s", "rows": %lld, "tokens_per_s": %.1f, "tokens_per_cpu_s": %.1f})"
                  "\n",
                  use_cache ? "ours, cache" : "ours, no cache", static_cast<long long>(shape.rows), rate.wall,
                  rate.cpu);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  std::vector<int64_t> numbers;
  for (int i = 1; i < argc; ++i) numbers.push_back(std::atoll(argv[i]));
  return composer::Main(numbers);
}

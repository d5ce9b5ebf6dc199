// simulate_membership [--seeds N] [--first SEED] [--agents N] [--exact] [--faults N]: runs seeds, prints the shortest
// history of the first one that fails, and exits with 1.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/env.h"
#include "base/options.h"
#include "tests/rendezvous/simulation.h"

namespace composer {
namespace {

int Main(const std::vector<std::string>& arguments) {
  SimulationOptions options;
  int seeds = 300, first = 1;
  const std::vector<Option> table = {
      {.name = "seeds", .metavar = "N", .help = "how many", .set = IntoInt(&seeds, 1, 100'000'000)},
      {.name = "first", .metavar = "SEED", .help = "the first one", .set = IntoInt(&first, 0, 1'000'000'000)},
      {.name = "agents", .metavar = "N", .help = "at most", .set = IntoInt(&options.max_agents, 1, 1'000'000)},
      {.name = "exact", .help = "as many agents as that", .set = IntoBool(&options.exact_agents)},
      {.name = "faults", .metavar = "N", .help = "at most", .set = IntoInt(&options.num_faults, 0, 10'000)},
      {.name = "trace", .help = "print the history of one seed", .set = IntoBool(&options.trace)},
  };
  const auto parsed = ParseOptions(table, arguments, Environment());
  if (!parsed.ok()) return std::fprintf(stderr, "%s\n", std::string(parsed.status().message()).c_str()), 64;
  int64_t worlds = 0, messages = 0, faults = 0;
  const absl::Time start = absl::Now();
  for (int seed = first; seed < first + seeds; ++seed) {
    options.seed = static_cast<uint64_t>(seed);
    SimulationResult result = Simulate(options);
    worlds += result.num_worlds;
    messages += result.num_messages;
    faults += result.num_faults;
    if (!result.violation.empty()) {
      std::printf("seed %d fails: %s\n", seed, result.violation.c_str());
      result = Shorten(options);
    }
    for (const std::string& line : result.trace) std::printf("  %s\n", line.c_str());
    if (!result.violation.empty()) return std::printf("again: --first %d --seeds 1\n", seed), 1;
  }
  std::printf("%d seeds, %lld faults, %lld messages to coordinators, %lld worlds, %.1f s: all held\n", seeds,
              static_cast<long long>(faults), static_cast<long long>(messages), static_cast<long long>(worlds),
              absl::ToDoubleSeconds(absl::Now() - start));
  return 0;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) { return composer::Main({argv + 1, argv + argc}); }

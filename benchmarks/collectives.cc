// Measures collectives among processes of this machine: collectives MEANS RANKS ROUNDS
//
// MEANS is one of shared_memory, gloo (ours: sums in one order), and raw_gloo (c10d's ProcessGroupGloo called
// directly). Prints one JSON line per collective and size, from rank 0: {"name", "collective", "bytes", "us": median of
// the blocks, "cpu_us": CPU time of all ranks for one collective, "blocks"}. bytes are those of the whole tensor.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "trainer/collectives/c10d_communicator.h"
#include "trainer/collectives/host_group.h"
#include "trainer/collectives/process_group.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr int kBlocks = 7;
constexpr int64_t kSizes[] = {4 << 10, 64 << 10, 1 << 20, 25 << 20};

std::unique_ptr<Communicator> Connect(const std::string& means, const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                      int size) {
  if (means == "raw_gloo") {
    return std::make_unique<C10dCommunicator>(ConnectGlooGroup({.store = store, .rank = rank, .world_size = size}));
  }
  HostGroupOptions options;
  options.store = store;
  options.collectives = means == "gloo" ? HostCollectives::kGloo : HostCollectives::kSharedMemory;
  return ConnectHostGroup(options, rank, size);
}

double CpuMicroseconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return 1e6 * static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

template <typename Collective>
void Measure(Communicator& communicator, const std::string& means, const char* name, int64_t bytes, double rounds,
             Collective collective) {
  const int count = std::max(3, static_cast<int>(rounds * 4096 / static_cast<double>(std::max<int64_t>(bytes, 65536))));
  std::vector<double> blocks, cpu;
  for (int block = 0; block <= kBlocks; ++block) {
    const double cpu_before = CpuMicroseconds();
    const absl::Time start = absl::Now();
    for (int i = 0; i < count; ++i) collective();
    double facts[] = {absl::ToDoubleMicroseconds(absl::Now() - start) / count,
                      (CpuMicroseconds() - cpu_before) / count};
    communicator.AllReduceSum(absl::MakeSpan(facts));
    if (block == 0) continue;  // warm-up
    blocks.push_back(facts[0] / communicator.world_size());
    cpu.push_back(facts[1]);
  }
  std::sort(blocks.begin(), blocks.end());
  std::sort(cpu.begin(), cpu.end());
  if (communicator.rank() != 0) return;
  std::printf(
      "{\"name\": \"%s\", \"collective\": \"%s\", \"bytes\": %lld, \"us\": %.2f, \"cpu_us\": %.2f, \"blocks\": [%s]}\n",
      means.c_str(), name, static_cast<long long>(bytes), blocks[kBlocks / 2], cpu[kBlocks / 2],
      absl::StrJoin(blocks, ", ").c_str());
  std::fflush(stdout);
}

void RunRank(const std::string& means, const std::string& folder, int rank, int size, double rounds) {
  torch::set_num_threads(1);
  const auto store = c10::make_intrusive<c10d::FileStore>(folder + "/store", size);
  const auto communicator = Connect(means, store, rank, size);
  for (const int64_t bytes : kSizes) {
    const int64_t part = bytes / 4 / size;
    const at::Tensor whole = torch::zeros({part * size}), own = torch::zeros({part});
    Measure(*communicator, means, "all-reduce", bytes, rounds, [&] { communicator->AllReduceSum(whole); });
    Measure(*communicator, means, "all-gather", bytes, rounds,
            [&] { communicator->StartAllGather(whole, own)->Wait(); });
    Measure(*communicator, means, "reduce-scatter", bytes, rounds,
            [&] { communicator->StartReduceScatterSum(own, whole)->Wait(); });
  }
}

int Run(const std::string& means, int size, double rounds) {
  std::string folder = std::filesystem::temp_directory_path() / "composer-collectives-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 70;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      const absl::Status status = CatchTorch([&] { RunRank(means, folder, rank, size, rounds); });
      if (!status.ok()) std::fprintf(stderr, "collectives: rank %d: %s\n", rank, status.ToString().c_str());
      _exit(status.ok() ? 0 : 70);
    }
    ranks.push_back(pid);
  }
  int failed = 0;
  for (const pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    failed |= status;
  }
  std::filesystem::remove_all(folder);
  return failed == 0 ? 0 : 70;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int size = 0;
  double rounds = 0;
  const std::string means = argc == 4 ? argv[1] : "";
  if ((means != "shared_memory" && means != "gloo" && means != "raw_gloo") || !absl::SimpleAtoi(argv[2], &size) ||
      size < 2 || !absl::SimpleAtod(argv[3], &rounds)) {
    std::fprintf(stderr, "usage: collectives shared_memory|gloo|raw_gloo RANKS ROUNDS\n");
    return 64;
  }
  return composer::Run(means, size, rounds);
}

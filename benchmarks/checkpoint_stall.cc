// Measures how long a save blocks training: AsyncSaver::Start beside a plain copy of the same bytes, in one process,
// one rank.
//   checkpoint_stall [megabytes] [tensors] [saves] [folder]      (512, 64, 7, /tmp)
// Prints one JSON line. Values are medians of all saves but the first, in milliseconds, unless stated otherwise:
//   stall        AsyncSaver::Start: the copy into its buffer and the hand-over
//   memcpy       std::memcpy of the same tensors into one buffer that is already resident, one thread
//   copy         at::Tensor::copy_ of the same (LibTorch's threads)
//   ratio        stall / memcpy; goal: stall <= 1.05 memcpy + 5 ms (within_goal)
//   stall_cpu, memcpy_cpu   the same in CPU time of the calling thread, for machines that are not idle
//   first_stall  of the first save, which allocates the buffer
//   total        until the checkpoint is committed and synced; sync_total: of a blocking save
//   write        a file of as many bytes, written in pieces of 8 MB and synced: the speed of the disk
//   buffer_mb, peak_mb   the buffer, and the growth of the process's peak beyond the tensors and one memcpy target
// Only the first save pays for page faults; each memcpy target is warm too.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "checkpoint/save/async_saver.h"
#include "storage/local_store.h"

namespace composer {
namespace {

double Milliseconds(const std::function<void()>& body) {
  const absl::Time began = absl::Now();
  body();
  return absl::ToDoubleMilliseconds(absl::Now() - began);
}

double CpuMilliseconds(const std::function<void()>& body) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  const double began = now();
  body();
  return now() - began;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Setting {
  int64_t megabytes = 512, tensors = 64, saves = 7;
  std::string folder = "/tmp";
};

double WriteFile(const std::string& path, const std::vector<char>& bytes) {
  const double took = Milliseconds([&] {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    PCHECK(fd >= 0) << path;
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t count = write(fd, bytes.data() + at, std::min<size_t>(bytes.size() - at, 8 << 20));
      PCHECK(count > 0) << path;
      at += static_cast<size_t>(count);
    }
    PCHECK(fsync(fd) == 0 && close(fd) == 0) << path;
  });
  unlink(path.c_str());
  return took;
}

void Run(const Setting& setting) {
  const std::string folder = absl::StrCat(setting.folder, "/checkpoint_stall-", getpid());
  StateDict state;
  const int64_t each = setting.megabytes * (1 << 20) / 4 / setting.tensors;
  for (int64_t i = 0; i < setting.tensors; ++i)
    state.tensors.emplace_back(absl::StrCat("model/layer", i, ".weight"), torch::full({each}, static_cast<double>(i)));
  state.small = {{"timestamp", "{\"batch\":1}"}};
  std::vector<char> target(static_cast<size_t>(each * 4 * setting.tensors));
  const auto copy_all = [&] {
    size_t at = 0;
    for (const auto& [name, tensor] : state.tensors) {
      std::memcpy(target.data() + at, tensor.const_data_ptr(), tensor.nbytes());
      at += tensor.nbytes();
    }
  };
  HostBuffer torch_target;
  torch_target.Reserve(HostBuffer::Aligned(each * 4) * setting.tensors);
  const double peak_before = PeakMegabytes();

  LocalStore store(folder);
  std::vector<double> stalls, totals, sync_totals, memcpys, copies, stall_cpus, memcpy_cpus;
  int64_t buffer_bytes = 0;
  int64_t batch = 0;
  {
    AsyncSaver saver(store, RankExchange(), {.run_name = "r", .keep = 1}, std::make_shared<SaveThread>());
    for (int64_t i = 0; i < setting.saves; ++i) {
      const absl::Time began = absl::Now();
      stalls.push_back(
          Milliseconds([&] { stall_cpus.push_back(CpuMilliseconds([&] { saver.Start(state, {0, ++batch}, 0); })); }));
      CHECK(saver.Take().location.ok());
      totals.push_back(absl::ToDoubleMilliseconds(absl::Now() - began));
      memcpys.push_back(Milliseconds([&] { memcpy_cpus.push_back(CpuMilliseconds(copy_all)); }));
    }
    buffer_bytes = saver.buffer_bytes();
  }
  const double peak = PeakMegabytes() - peak_before;
  for (int64_t i = 0; i < setting.saves; ++i) {
    copies.push_back(Milliseconds([&] {
      int64_t at = 0;
      for (const auto& [name, tensor] : state.tensors) {
        torch_target.View(at, tensor.scalar_type(), tensor.sizes()).copy_(tensor);
        at += HostBuffer::Aligned(static_cast<int64_t>(tensor.nbytes()));
      }
    }));
  }
  Saver blocking(store, RankExchange(), {.run_name = "r", .keep = 1});
  for (int64_t i = 0; i < std::min<int64_t>(3, setting.saves); ++i)
    sync_totals.push_back(Milliseconds([&] { CHECK(blocking.Save(state, {0, ++batch}, 0).ok()); }));
  std::vector<double> writes;
  for (int i = 0; i < 3; ++i) writes.push_back(WriteFile(folder + "/plain", target));
  std::filesystem::remove_all(folder);

  const double first = stalls.front();
  stall_cpus.erase(stall_cpus.begin()), memcpy_cpus.erase(memcpy_cpus.begin());
  stalls.erase(stalls.begin()), memcpys.erase(memcpys.begin()), totals.erase(totals.begin());
  const double stall = Median(stalls), copied = Median(memcpys);
  absl::PrintF(
      "{\"megabytes\": %d, \"tensors\": %d, \"stall\": %.2f, \"memcpy\": %.2f, \"copy\": %.2f, \"ratio\": %.3f, "
      "\"within_goal\": %s, \"stall_cpu\": %.2f, \"memcpy_cpu\": %.2f, \"first_stall\": %.2f, \"total\": %.1f, "
      "\"sync_total\": %.1f, \"write\": %.1f, "
      "\"buffer_mb\": %.1f, \"peak_mb\": %.1f}\n",
      setting.megabytes, setting.tensors, stall, copied, Median(copies), stall / copied,
      stall <= 1.05 * copied + 5 ? "true" : "false", Median(stall_cpus), Median(memcpy_cpus), first, Median(totals),
      Median(sync_totals), Median(writes), static_cast<double>(buffer_bytes) / (1 << 20), peak);
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  composer::Setting setting;
  const auto number = [&](int at, int64_t* value) { return argc <= at || absl::SimpleAtoi(argv[at], value); };
  if (!number(1, &setting.megabytes) || !number(2, &setting.tensors) || !number(3, &setting.saves) || argc > 5 ||
      setting.megabytes < 1 || setting.tensors < 1 || setting.saves < 2) {
    std::fprintf(stderr, "usage: checkpoint_stall [megabytes] [tensors] [saves, at least 2] [folder]\n");
    return 64;
  }
  if (argc > 4) setting.folder = argv[4];
  composer::Run(setting);
}

// Reads the machine's figures at intervals on its own thread while a window is recorded.
//
//   cpu                  cpu_percent                               of all CPUs, 0 to 100
//   memory/virtual       used_gb, available_gb                     of the machine; GB = 1e9 bytes
//   memory/swap          used_gb, free_gb
//   memory/process       resident_gb                               of this rank
//   memory/cuda/<n>      allocated_gb, reserved_gb                 where the GPU allocator is in use
//   disk/<name>          read_mb_per_sec, write_mb_per_sec, busy_percent
//   network/<name>       received_mb_per_sec, sent_mb_per_sec      MB = 1e6 bytes
//
// mosaicml (profiler/system_profiler.py) writes totals since boot, with wrong units and one key for all disk figures;
// rates are what a graph over a few seconds can show.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/machine_stats.h"
#include "trainer/profiler/proc_stats.h"
#include "trainer/profiler/timeline.h"

namespace composer {

inline constexpr absl::string_view kResidentCounter = "memory/process";

struct SystemSamplerOptions {
  bool cpu = true;
  bool memory = false;
  bool disk = false;
  bool net = false;
  absl::Duration interval = absl::Milliseconds(500);
  bool any() const { return cpu || memory || disk || net; }
};

// Returns the current resident memory of this process as a sample, without values when /proc cannot be read.
CounterSample SampleResident();

// Takes readings, of which the first gives no rates. Not thread-safe.
class SystemReader {
 public:
  explicit SystemReader(const SystemSamplerOptions& options) : options_(options) {}
  void Read(int64_t now_ns, std::vector<CounterSample>* samples);

 private:
  void ReadCpu(int64_t now_ns, std::vector<CounterSample>* samples);
  void ReadMemory(int64_t now_ns, std::vector<CounterSample>* samples);
  void ReadDisks(int64_t now_ns, double seconds, std::vector<CounterSample>* samples);
  void ReadNetwork(int64_t now_ns, double seconds, std::vector<CounterSample>* samples);

  SystemSamplerOptions options_;
  int64_t last_ns_ = 0;
  CpuTimes cpu_;
  std::map<std::string, DiskTotals> disks_;
  std::map<std::string, NetworkTotals> network_;
};

// Samples from construction until Stop, which takes one last sample and may be called once.
class SystemSampler {
 public:
  explicit SystemSampler(const SystemSamplerOptions& options);
  ~SystemSampler();
  SystemSampler(const SystemSampler&) = delete;
  SystemSampler& operator=(const SystemSampler&) = delete;

  std::vector<CounterSample> Stop();

 private:
  void Run();

  const SystemSamplerOptions options_;
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  SystemReader reader_;                 // owned by the thread
  std::vector<CounterSample> samples_;  // owned by the thread until it is joined
  std::thread thread_;
};

}  // namespace composer

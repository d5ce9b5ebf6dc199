// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/system_sampler.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kMaxProcBytes = 4 << 20;

double Gb(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }
double MbPerSec(int64_t bytes, double seconds) { return static_cast<double>(bytes) / 1e6 / seconds; }

// Returns the text of a file of /proc, "" when it cannot be read.
std::string Proc(const char* path) { return ReadFile(path, kMaxProcBytes).value_or(""); }

void ReadDevices(int64_t now_ns, std::vector<CounterSample>* samples) {
  if (!at::hasCUDA()) return;
  c10::DeviceAllocator* allocator = c10::getDeviceAllocator(at::kCUDA);
  if (!allocator->initialized()) return;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const int count = at::globalContext().getAcceleratorHooksInterface(at::kCUDA).deviceCount();
  for (int device = 0; device < count; ++device) {
    const auto stats = allocator->getDeviceStats(static_cast<c10::DeviceIndex>(device));
    if (stats.reserved_bytes[kAll].current == 0) continue;  // it belongs to another rank
    samples->push_back({now_ns,
                        absl::StrCat("memory/cuda/", device),
                        {{"allocated_gb", Gb(stats.allocated_bytes[kAll].current)},
                         {"reserved_gb", Gb(stats.reserved_bytes[kAll].current)}}});
  }
}

}  // namespace

CounterSample SampleResident() {
  CounterSample sample{UnixNanos(), std::string(kResidentCounter), {}};
  const auto bytes = ParseResidentBytes(Proc("/proc/self/statm"), sysconf(_SC_PAGESIZE));
  if (bytes.ok()) sample.values.emplace_back("resident_gb", Gb(*bytes));
  return sample;
}

void SystemReader::Read(int64_t now_ns, std::vector<CounterSample>* samples) {
  const double seconds = last_ns_ == 0 ? 0 : static_cast<double>(now_ns - last_ns_) / 1e9;
  if (options_.cpu) ReadCpu(now_ns, samples);
  if (options_.memory) ReadMemory(now_ns, samples);
  if (options_.disk) ReadDisks(now_ns, seconds, samples);
  if (options_.net) ReadNetwork(now_ns, seconds, samples);
  last_ns_ = now_ns;
}

void SystemReader::ReadCpu(int64_t now_ns, std::vector<CounterSample>* samples) {
  const auto times = ReadCpuTimes();
  if (!times.ok()) return;
  if (cpu_.total > 0) samples->push_back({now_ns, "cpu", {{"cpu_percent", CpuPercent(cpu_, *times)}}});
  cpu_ = *times;
}

void SystemReader::ReadMemory(int64_t now_ns, std::vector<CounterSample>* samples) {
  if (const auto memory = ReadMachineMemory(); memory.ok()) {
    samples->push_back(
        {now_ns, "memory/virtual", {{"used_gb", Gb(memory->used)}, {"available_gb", Gb(memory->available)}}});
    samples->push_back({now_ns,
                        "memory/swap",
                        {{"used_gb", Gb(memory->swap_total - memory->swap_free)}, {"free_gb", Gb(memory->swap_free)}}});
  }
  samples->push_back(SampleResident());
  ReadDevices(now_ns, samples);
}

void SystemReader::ReadDisks(int64_t now_ns, double seconds, std::vector<CounterSample>* samples) {
  std::map<std::string, DiskTotals> disks = ParseDisks(Proc("/proc/diskstats"));
  for (const auto& [name, now] : disks) {
    const auto before = disks_.find(name);
    if (before == disks_.end() || seconds <= 0) continue;
    samples->push_back({now_ns,
                        absl::StrCat("disk/", name),
                        {{"read_mb_per_sec", MbPerSec(now.read_bytes - before->second.read_bytes, seconds)},
                         {"write_mb_per_sec", MbPerSec(now.written_bytes - before->second.written_bytes, seconds)},
                         {"busy_percent", static_cast<double>(now.busy_ms - before->second.busy_ms) / seconds / 10}}});
  }
  disks_ = std::move(disks);
}

void SystemReader::ReadNetwork(int64_t now_ns, double seconds, std::vector<CounterSample>* samples) {
  std::map<std::string, NetworkTotals> network = ParseNetwork(Proc("/proc/net/dev"));
  for (const auto& [name, now] : network) {
    const auto before = network_.find(name);
    if (before == network_.end() || seconds <= 0) continue;
    samples->push_back({now_ns,
                        absl::StrCat("network/", name),
                        {{"received_mb_per_sec", MbPerSec(now.received_bytes - before->second.received_bytes, seconds)},
                         {"sent_mb_per_sec", MbPerSec(now.sent_bytes - before->second.sent_bytes, seconds)}}});
  }
  network_ = std::move(network);
}

SystemSampler::SystemSampler(const SystemSamplerOptions& options) : options_(options), reader_(options) {
  thread_ = std::thread([this] { Run(); });
}

SystemSampler::~SystemSampler() {
  if (thread_.joinable()) Stop();
}

std::vector<CounterSample> SystemSampler::Stop() {
  {
    const absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
  return std::move(samples_);
}

void SystemSampler::Run() {
  bool stopping = false;
  while (!stopping) {
    reader_.Read(UnixNanos(), &samples_);
    const absl::MutexLock lock(&mutex_);
    stopping = mutex_.AwaitWithTimeout(absl::Condition(&stop_), options_.interval);
  }
  reader_.Read(UnixNanos(), &samples_);
}

}  // namespace composer

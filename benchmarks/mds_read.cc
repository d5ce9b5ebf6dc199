// mds_read [FOLDER] [SAMPLES]: writes an MDS data set of 1-KiB samples, and reads it in order and in py1e's order.
// Prints MB/s of writing and CPU nanoseconds a cached sample; each sample's first and last byte are touched.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <numeric>
#include <string>

#include "base/file.h"
#include "data/mds/reader.h"
#include "data/mds/writer.h"
#include "data/order/order.h"
#include "storage/local_store.h"

namespace {

constexpr int64_t kBytes = 1024;

double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

absl::Status WriteSamples(const std::string& folder, int64_t samples) {
  auto writer = composer::MdsWriter::Create(std::make_shared<composer::LocalStore>(folder),
                                            {.columns = {{"label", "int"}, {"x", "bytes"}}});
  if (!writer.ok()) return writer.status();
  std::string x(kBytes, 'x');
  for (int64_t i = 0; i < samples; ++i) {
    x[0] = static_cast<char>(i);
    const absl::string_view label(reinterpret_cast<const char*>(&i), sizeof i);
    if (const absl::Status written = (*writer)->Write({label, x}); !written.ok()) return written;
  }
  return (*writer)->Finish();
}

// Reads every sample twice; the first time, pages are brought in.
int Read(composer::MdsReader& reader, const std::vector<uint32_t>& ids, const char* name) {
  composer::MdsSample sample;
  int64_t sum = 0;
  for (const bool cached : {false, true}) {
    const double begin = CpuSeconds();
    for (const uint32_t id : ids) {
      if (!reader.Read(id, sample).ok()) return 1;
      sum += sample.columns[1].front() + sample.columns[1].back();
    }
    std::cout << name << (cached ? ", cached: " : ", first: ")
              << (CpuSeconds() - begin) * 1e9 / static_cast<double>(ids.size()) << " ns of CPU a sample\n";
  }
  std::cout << "(sum " << sum << ")\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/tmp/composer-mds-read";
  const int64_t samples = argc > 2 ? std::atoll(argv[2]) : 1'000'000;
  if (!composer::RemoveTree(folder).ok()) return 1;
  const auto begin = std::chrono::steady_clock::now();
  const double cpu = CpuSeconds();
  if (const absl::Status written = WriteSamples(folder, samples); !written.ok()) {
    std::cerr << written << "\n";
    return 1;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::cout << "writing: " << static_cast<double>(samples * kBytes) / 1e6 / seconds << " MB/s, "
            << static_cast<double>(samples * kBytes) / 1e6 / (CpuSeconds() - cpu) << " MB a CPU second\n";
  auto reader = composer::MdsReader::Create(composer::ReadMdsIndex(folder).value(), composer::LocalShards(folder));
  composer::OrderConfig config;
  config.streams.push_back({.shard_samples = (*reader)->ShardSizes()});
  const std::vector<uint32_t> shuffled = composer::Order::Create(config).value().Epoch(0).value();
  std::vector<uint32_t> in_order(static_cast<size_t>(samples));
  std::iota(in_order.begin(), in_order.end(), 0U);
  return Read(**reader, in_order, "in order") + Read(**reader, shuffled, "py1e");
}

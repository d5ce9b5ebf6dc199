// SPDX-License-Identifier: Apache-2.0
#include "data/tools/data_bench.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "data/mds/reader.h"

namespace composer {
namespace {

constexpr int64_t kBatch = 256;

double CpuNow() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct ReadCounts {
  int64_t samples = 0, bytes = 0;
  uint64_t sum = 0;  // of a byte of each value, so that values are touched
};

absl::StatusOr<ReadCounts> ReadSamples(MdsReader& reader, EpochOrder& order, int64_t samples) {
  ReadCounts counts;
  std::vector<uint32_t> ids(kBatch);
  MdsSample sample;
  while (counts.samples < samples) {
    const auto batch = absl::MakeSpan(ids).first(static_cast<size_t>(std::min(kBatch, samples - counts.samples)));
    order.Read(counts.samples, batch);
    for (const uint32_t id : batch) {
      RETURN_IF_ERROR(reader.Read(id, sample));
      for (const absl::string_view value : sample.columns) {
        counts.bytes += static_cast<int64_t>(value.size());
        if (!value.empty()) counts.sum += static_cast<unsigned char>(value.back());
      }
    }
    counts.samples += static_cast<int64_t>(batch.size());
  }
  return counts;
}

}  // namespace

absl::StatusOr<std::string> BenchMds(const std::string& folder, DataBenchOptions options) {
  Clock& clock = RealClock::Get();
  absl::Time begin = clock.Now();
  const auto passed = [&] { return absl::ToDoubleSeconds(clock.Now() - std::exchange(begin, clock.Now())); };
  ASSIGN_OR_RETURN(MdsIndex index, ReadMdsIndex(folder));
  ASSIGN_OR_RETURN(const std::unique_ptr<MdsReader> reader, MdsReader::Create(std::move(index), LocalShards(folder)));
  std::string text = absl::StrFormat("open:          %.1f ms\n", 1e3 * passed());
  options.order.streams = {{.shard_samples = reader->ShardSizes()}};
  ASSIGN_OR_RETURN(const Order order, Order::Create(options.order));
  ASSIGN_OR_RETURN(const std::shared_ptr<EpochOrder> epoch, order.Open(0));
  const int64_t samples = std::min(options.samples, epoch->size());
  RETURN_IF_ERROR(ReadSamples(*reader, *epoch, std::min(samples, kBatch)).status());
  absl::StrAppendFormat(&text, "first batch:   %.1f ms\n", 1e3 * passed());
  for (const char* const what : {"first pass:    ", "cached:        "}) {
    const double cpu = CpuNow();
    begin = clock.Now();
    ASSIGN_OR_RETURN(const ReadCounts counts, ReadSamples(*reader, *epoch, samples));
    const double used = CpuNow() - cpu, seconds = passed();
    absl::StrAppendFormat(&text, "%s%.0f ns of CPU a sample, %.0f samples/s, %.0f MB/s (check %d)\n", what,
                          used * 1e9 / static_cast<double>(counts.samples),
                          static_cast<double>(counts.samples) / seconds,
                          static_cast<double>(counts.bytes) / 1e6 / seconds, counts.sum % 1000);
  }
  return text;
}

}  // namespace composer

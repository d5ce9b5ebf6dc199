// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory/out_of_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/machine_stats.h"

namespace composer {
namespace {

constexpr size_t kShownUsers = 5;
// A process with less memory is not listed.
constexpr int64_t kNotableBytes = 100'000'000;

std::string Gigabytes(int64_t bytes) { return absl::StrFormat("%.3g GB", static_cast<double>(bytes) / 1e9); }

bool OnGpu(const OutOfMemoryFacts& facts) { return facts.device != "cpu"; }

// Returns the samples in flight: a microbatch, or the whole rank batch.
int64_t SamplesAtOnce(const OutOfMemoryFacts& facts) {
  const int64_t microbatch = facts.device_train_microbatch_size, batch = facts.device_batch_size;
  return microbatch > 0 && (batch == 0 || microbatch < batch) ? microbatch : batch;
}

std::string Headline(const OutOfMemoryFacts& facts) {
  std::string text = absl::StrCat("out of memory on ", facts.device, " (rank ", facts.rank, ") in ",
                                  facts.in_evaluation ? "an evaluation after batch " : "batch ", facts.batch);
  if (const int64_t bytes = RequestedBytes(facts.error); bytes > 0)
    absl::StrAppend(&text, ": ", Gigabytes(bytes), " more were asked for");
  return text;
}

std::string Numbers(const OutOfMemoryFacts& facts) {
  std::vector<std::string> parts;
  if (facts.total_bytes > 0) {
    parts.push_back(absl::StrCat(Gigabytes(facts.total_bytes), ", ", Gigabytes(facts.free_bytes), " of it free"));
  }
  if (facts.allocated_bytes > 0) {
    std::string own =
        absl::StrCat("this process: ", Gigabytes(facts.allocated_bytes), OnGpu(facts) ? " in tensors" : "");
    if (facts.peak_bytes > 0) absl::StrAppend(&own, " (peak ", Gigabytes(facts.peak_bytes), ")");
    if (const int64_t kept = facts.reserved_bytes - facts.allocated_bytes; kept > kNotableBytes)
      absl::StrAppend(&own, ", ", Gigabytes(kept), " kept for reuse");
    parts.push_back(std::move(own));
  }
  return parts.empty() ? "" : absl::StrCat("memory: ", absl::StrJoin(parts, "; "));
}

std::string LowerBatch(const OutOfMemoryFacts& facts) {
  if (facts.in_evaluation) return "lower the evaluation's batch_size first (eval_dataloader)";
  const int64_t now = SamplesAtOnce(facts), next = SmallerMicrobatch(now);
  if (now == 1 || facts.automatic) {
    return "one sample is too much already: shorten it (max_seq_len, image size), use precision: amp_bf16, a smaller "
           "model, or more ranks that share it (parallelism_config)";
  }
  if (next == 0) return "lower device_train_microbatch_size first, or set it to auto; the gradients stay the same";
  return absl::StrCat("lower device_train_microbatch_size first: ", now, " -> ", next,
                      ", or auto; the gradients stay the same");
}

// Returns whether the allocator has enough memory for the request, but in pieces.
bool IsFragmented(const OutOfMemoryFacts& facts) {
  const int64_t requested = RequestedBytes(facts.error);
  return OnGpu(facts) && requested > 0 && facts.reserved_bytes - facts.allocated_bytes >= requested;
}

std::vector<MemoryUser> Others(const OutOfMemoryFacts& facts) {
  std::vector<MemoryUser> others;
  for (const MemoryUser& user : facts.users) {
    if (user.pid == facts.own_pid || (user.bytes >= 0 && user.bytes < kNotableBytes)) continue;
    others.push_back(user);
    if (others.size() == kShownUsers) break;
  }
  return others;
}

std::string Describe(const MemoryUser& user) {
  return absl::StrCat(user.name.empty() ? "a process" : user.name, " (pid ", user.pid, ")",
                      user.bytes >= 0 ? absl::StrCat(" ", Gigabytes(user.bytes)) : "");
}

}  // namespace

int64_t RequestedBytes(absl::string_view error) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"bytes", 1}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776.0}};
  for (const absl::string_view start : {"Tried to allocate ", "tried to allocate "}) {
    const size_t at = error.find(start);
    if (at == absl::string_view::npos) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(error.substr(at + start.size()), absl::MaxSplits(' ', 2));
    double number = 0;
    if (words.size() < 2 || !absl::SimpleAtod(words[0], &number) || !(number > 0) || number > 1e15) return 0;
    for (const auto& [unit, factor] : kUnits) {
      if (absl::StartsWith(words[1], unit)) return static_cast<int64_t>(number * factor);
    }
  }
  return 0;
}

int64_t SmallerMicrobatch(int64_t current) { return current <= 1 ? 0 : (current + 1) / 2; }

std::string OutOfMemoryAdvice(const OutOfMemoryFacts& facts) {
  std::vector<std::string> lines = {Headline(facts)};
  if (std::string numbers = Numbers(facts); !numbers.empty()) lines.push_back(std::move(numbers));
  const std::vector<MemoryUser> others = Others(facts);
  const auto others_line = [&] {
    return absl::StrCat("others there: ", absl::StrJoin(others, ", ", [](std::string* out, const MemoryUser& user) {
                          absl::StrAppend(out, Describe(user));
                        }));
  };
  const bool others_first = !others.empty() && others.front().bytes > std::max<int64_t>(1, facts.allocated_bytes);
  if (others_first) lines.push_back(absl::StrCat(others_line(), "; end them or use another device"));
  lines.push_back(LowerBatch(facts));
  if (IsFragmented(facts)) {
    lines.push_back(
        "the allocator keeps enough for it, but in pieces: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  }
  if (!others.empty() && !others_first) lines.push_back(others_line());
  return absl::StrJoin(lines, "\n  ");
}

std::vector<MemoryUser> GpuMemoryUsers(const Nvml& nvml, int device) {
  std::vector<MemoryUser> users;
  const absl::StatusOr<std::vector<Nvml::Process>> processes = nvml.Processes(device);
  if (!processes.ok()) return users;
  for (const Nvml::Process& process : *processes)
    users.push_back({process.pid, ProcessName(process.pid), process.memory_bytes});
  return users;
}

std::vector<MemoryUser> HostMemoryUsers(size_t limit) {
  std::vector<MemoryUser> users;
  for (ProcessMemory& process : LargestProcesses(limit))
    users.push_back({process.pid, std::move(process.name), process.resident_bytes});
  return users;
}

}  // namespace composer

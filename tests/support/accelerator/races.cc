// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/races.h"

#include "absl/strings/str_cat.h"

namespace composer::mock {
namespace {

bool Overlap(const Access& a, const Access& b) { return a.begin < b.end && b.begin < a.end; }
bool Covers(const Access& a, const Access& b) { return a.begin <= b.begin && b.end <= a.end; }

}  // namespace

void Races::Born(uintptr_t begin, size_t bytes) { blocks_[begin] = {bytes, {}, ++allocations_}; }

void Races::Died(uintptr_t begin) { blocks_.erase(begin); }

std::vector<Races::Past> Races::Users(uintptr_t begin) const {
  const auto found = blocks_.find(begin);
  return found == blocks_.end() ? std::vector<Past>{} : found->second.past;
}

uint64_t Races::AllocationOf(uintptr_t address) const {
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return 0;
  const auto& [begin, block] = *std::prev(after);
  return address < begin + block.bytes ? block.allocation : 0;
}

std::string Races::Use(const Access& access, const Epoch& epoch, const Clock& clock, const std::string& operation) {
  const auto after = blocks_.upper_bound(access.begin);
  if (after == blocks_.begin() || access.begin >= access.end) return "";
  auto& [begin, block] = *std::prev(after);
  if (access.begin >= begin + block.bytes)
    return absl::StrCat(operation, " on stream ", epoch.stream, " uses memory that is not allocated");
  std::string message;
  for (const Past& past : block.past) {
    if (!Overlap(past.access, access) || !(past.access.writes || access.writes) || clock.Knows(past.epoch)) continue;
    message = absl::StrCat(operation, " on stream ", epoch.stream, access.writes ? " writes" : " reads", " what ",
                           past.operation, " on stream ", past.epoch.stream, past.access.writes ? " wrote" : " reads",
                           ", and does not wait for it");
  }
  // What a later use implies need not be kept.
  std::erase_if(block.past, [&](const Past& past) {
    return Covers(access, past.access) && clock.Knows(past.epoch) &&
           (access.writes || (!past.access.writes && past.epoch.stream == epoch.stream));
  });
  block.past.push_back({access, epoch, operation});
  return message;
}

}  // namespace composer::mock

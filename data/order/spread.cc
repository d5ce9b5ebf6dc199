// SPDX-License-Identifier: Apache-2.0
#include "data/order/spread.h"

#include <algorithm>
#include <bit>

namespace composer {
namespace {

constexpr size_t kWidth = size_t{1} << Spreader::kBits;  // places in a bucket

}  // namespace

Spreader::Spreader(int64_t size, int64_t reach, int64_t first, int64_t until)
    : size_(static_cast<size_t>(size)),
      reach_(static_cast<size_t>(std::min(reach, size))),
      next_bucket_(static_cast<size_t>(std::max<int64_t>(0, first - reach)) / kWidth),
      end_bucket_((static_cast<size_t>(std::min(size, until)) + kWidth - 1) / kWidth) {
  // From the oldest bucket that is still open to the farthest that a sample may reach.
  const size_t open = std::min(2 * (reach_ / kWidth + 1) + 4, end_bucket_ - std::min(next_bucket_, end_bucket_) + 1);
  buckets_.resize(std::bit_ceil(open));
  mask_ = buckets_.size() - 1;
  // About as many samples as places; memory is taken when it is written.
  for (std::vector<Placed>& bucket : buckets_) bucket.reserve(std::min(size_, kWidth + kWidth / 8));
  starts_.resize(kWidth + 1);
}

void Spreader::Advance(int64_t index, std::vector<uint32_t>& ids) {
  const auto next = static_cast<size_t>(index);
  const size_t safe = next > reach_ ? next - reach_ : 0;  // later samples get places from here on
  while ((next_bucket_ + 1) * kWidth <= safe && !IsDone()) WriteBucket(ids);
}

void Spreader::Finish(std::vector<uint32_t>& ids) {
  while (!IsDone()) WriteBucket(ids);
}

// Sorts by counting samples a unit of place, of which there is about one, and then by insertion.
void Spreader::WriteBucket(std::vector<uint32_t>& ids) {
  std::vector<Placed>& bucket = buckets_[next_bucket_ & mask_];
  const auto unit = [](const Placed& placed) {
    return static_cast<size_t>(static_cast<int64_t>(placed.place)) & (kWidth - 1);
  };
  std::fill(starts_.begin(), starts_.end(), 0);
  for (const Placed& placed : bucket) ++starts_[unit(placed) + 1];
  for (size_t i = 1; i <= kWidth; ++i) starts_[i] += starts_[i - 1];
  if (sorted_.size() < bucket.size()) sorted_.resize(bucket.size());
  for (const Placed& placed : bucket) sorted_[starts_[unit(placed)]++] = placed;
  for (size_t i = 1; i < bucket.size(); ++i) {
    const Placed placed = sorted_[i];
    size_t to = i;
    for (; to > 0 && placed.place < sorted_[to - 1].place; --to) sorted_[to] = sorted_[to - 1];
    sorted_[to] = placed;
  }
  for (size_t i = 0; i < bucket.size(); ++i) ids.push_back(sorted_[i].id);
  bucket.clear();
  ++next_bucket_;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/values_over_ranks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/core/communicator.h"

namespace composer {

std::vector<double> ValuesOfAllRanks(absl::Span<const double> own, Communicator* communicator) {
  const at::NoGradGuard no_grad;
  if (communicator == nullptr || own.empty()) return {own.begin(), own.end()};
  const auto count = static_cast<int64_t>(own.size());
  at::Tensor mine = at::empty({count}, at::kDouble);
  std::copy(own.begin(), own.end(), static_cast<double*>(mine.mutable_data_ptr()));
  mine = mine.to(communicator->device());
  const at::Tensor gathered = at::empty({communicator->world_size() * count}, mine.options());
  communicator->StartAllGather(gathered, mine)->Wait();
  const at::Tensor all = gathered.cpu();
  const auto* const values = static_cast<const double*>(all.const_data_ptr());
  return {values, values + all.numel()};
}

std::vector<OverRanks> ValuesOverRanks(absl::Span<const double> own, Communicator* communicator) {
  const std::vector<double> all = ValuesOfAllRanks(own, communicator);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<OverRanks> over(own.size(), {kNone, kNone, kNone});
  for (size_t i = 0; i < own.size(); ++i) {
    double sum = 0;
    int known = 0;
    for (size_t at = i; at < all.size(); at += own.size()) {
      if (std::isnan(all[at])) continue;
      sum += all[at];
      ++known;
      over[i].min = std::fmin(over[i].min, all[at]);  // of a NaN and a number, the number
      over[i].max = std::fmax(over[i].max, all[at]);
    }
    if (known > 0) over[i].avg = sum / known;
  }
  return over;
}

}  // namespace composer

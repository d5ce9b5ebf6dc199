// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/goodput.h"

#include <algorithm>

namespace composer {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(30);

}  // namespace

void GoodputMeter::Observe(int64_t step, bool training, absl::Time now) {
  if (!training) {
    marked_ = absl::InfinitePast();
    return;
  }
  if (!begun_) {
    begun_ = true;
    first_step_ = step_ = step;
    if (furthest_ > step) {  // these steps will be repeated
      useful_ = std::max(absl::ZeroDuration(), useful_ - seconds_a_step_ * (furthest_ - step));
      furthest_ = step;
    }
  }
  if (marked_ == absl::InfinitePast()) marked_ = now;
  if (step > step_) {
    useful_ += now - marked_;
    stepping_ += now - marked_;
    marked_ = now;
    step_ = step;
  }
  if (recent_.empty() || recent_.back().second != step) recent_.emplace_back(now, step);
  while (recent_.size() > 2 && now - recent_[1].first > kWindow) recent_.pop_front();
}

void GoodputMeter::EndGeneration() {
  if (begun_ && step_ > furthest_) {
    furthest_ = step_;
    seconds_a_step_ = step_ > first_step_ ? stepping_ / (step_ - first_step_) : absl::ZeroDuration();
  }
  begun_ = false;
  marked_ = absl::InfinitePast();
  stepping_ = absl::ZeroDuration();
  recent_.clear();
}

double GoodputMeter::Goodput(absl::Time now) const {
  if (now <= launched_) return 0;
  return std::clamp(absl::FDivDuration(useful_, now - launched_), 0.0, 1.0);
}

double GoodputMeter::StepsPerSecond(absl::Time now) const {
  if (recent_.size() < 2) return 0;
  // A run that has just stopped stepping slows down instead of keeping its last pace forever.
  const absl::Duration between = recent_.back().first - recent_.front().first;
  const absl::Duration last_pause = now - recent_.back().first;
  const absl::Duration mean = between / static_cast<int64_t>(recent_.size() - 1);
  const absl::Duration span = between + std::max(absl::ZeroDuration(), last_pause - mean);
  if (span <= absl::ZeroDuration()) return 0;
  return static_cast<double>(recent_.back().second - recent_.front().second) / absl::ToDoubleSeconds(span);
}

}  // namespace composer

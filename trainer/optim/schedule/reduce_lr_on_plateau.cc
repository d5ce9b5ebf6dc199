// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/schedule/reduce_lr_on_plateau.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format/json.h"

namespace composer {

absl::Status Validate(const PlateauSpec& spec) {
  const auto bad = [](absl::string_view field, double value, absl::string_view allowed) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", must be ", allowed));
  };
  if (spec.monitor.empty()) return absl::InvalidArgumentError("monitor: required, the name of a logged metric");
  if (!(spec.factor >= 0 && spec.factor < 1)) return bad("factor", spec.factor, "in [0, 1)");
  const std::pair<const char*, double> from_zero[] = {{"patience", static_cast<double>(spec.patience)},
                                                      {"threshold", spec.threshold},
                                                      {"cooldown", static_cast<double>(spec.cooldown)},
                                                      {"min_lr", spec.min_lr},
                                                      {"eps", spec.eps}};
  for (const auto& [field, value] : from_zero) {
    if (!(value >= 0)) return bad(field, value, "at least 0");
  }
  return absl::OkStatus();
}

ReduceLROnPlateau::ReduceLROnPlateau(PlateauSpec spec)
    : spec_(std::move(spec)), best_(std::numeric_limits<double>::infinity() * (spec_.maximize ? -1 : 1)) {
  const absl::Status valid = Validate(spec_);
  TORCH_CHECK_VALUE(valid.ok(), std::string(valid.message()));
}

absl::Status ReduceLROnPlateau::Check(const ScheduleContext& context) const {
  if (context.scale_schedule_ratio == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("scale_schedule_ratio: ", context.scale_schedule_ratio,
                                                 ", must be 1 with reduce_lr_on_plateau, which cannot be scaled"));
}

double ReduceLROnPlateau::Factor(const Timestamp& now, const ScheduleContext& context) const {
  double lr = context.initial_lr;
  for (int64_t i = 0; i < reductions_; ++i) {
    const double reduced = std::max(lr * spec_.factor, spec_.min_lr);
    if (!(lr - reduced > spec_.eps)) break;
    lr = reduced;
  }
  return context.initial_lr == 0 ? 1 : lr / context.initial_lr;
}

bool ReduceLROnPlateau::IsBetter(double value) const {
  if (spec_.maximize) return value > (spec_.absolute ? best_ + spec_.threshold : best_ * (1 + spec_.threshold));
  return value < (spec_.absolute ? best_ - spec_.threshold : best_ * (1 - spec_.threshold));
}

void ReduceLROnPlateau::Observe(double value) {
  if (IsBetter(value)) {
    best_ = value;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_ = 0;
  }
  if (bad_ <= spec_.patience) return;
  ++reductions_;
  cooldown_left_ = spec_.cooldown;
  bad_ = 0;
}

std::string ReduceLROnPlateau::SaveState() const {
  nlohmann::json json = {{"bad", bad_}, {"cooldown_left", cooldown_left_}, {"reductions", reductions_}};
  if (std::isfinite(best_)) json["best"] = best_;
  return json.dump();
}

absl::Status ReduceLROnPlateau::LoadState(absl::string_view text) {
  const auto json = ParseJson(text);
  for (const char* field : {"bad", "cooldown_left", "reductions"}) {
    if (!json.is_object() || !json.contains(field) || !json[field].is_number_integer()) {
      return absl::InvalidArgumentError(absl::StrCat("the saved state has no number ", field));
    }
  }
  if (json.contains("best")) {
    if (!json["best"].is_number()) return absl::InvalidArgumentError("the saved state's best is not a number");
    best_ = json["best"].get<double>();
  }
  bad_ = json["bad"].get<int64_t>();
  cooldown_left_ = json["cooldown_left"].get<int64_t>();
  reductions_ = json["reductions"].get<int64_t>();
  return absl::OkStatus();
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "contract/startup_limits.h"

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr double kMaxStartupSeconds = 30.0 * 24 * 3600;

struct StartupPhaseLimit {
  absl::string_view name;
  absl::Duration StartupLimits::* limit;
};
constexpr std::array<StartupPhaseLimit, 5> kStartupPhases = {{{"attach", &StartupLimits::attach},
                                                              {"group", &StartupLimits::group},
                                                              {"build", &StartupLimits::build},
                                                              {"load", &StartupLimits::load},
                                                              {"first_step", &StartupLimits::first_step}}};

}  // namespace

std::vector<std::string> StartupPhaseNames() {
  std::vector<std::string> names;
  for (const StartupPhaseLimit& phase : kStartupPhases) names.emplace_back(phase.name);
  return names;
}

absl::Status SetStartupLimit(absl::string_view phase, double seconds, StartupLimits& limits) {
  const std::string name = absl::StrReplaceAll(phase, {{"-", "_"}});
  for (const StartupPhaseLimit& known : kStartupPhases) {
    if (known.name != name) continue;
    if (!(seconds >= 0 && seconds <= kMaxStartupSeconds)) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": must be from 0 to ", kMaxStartupSeconds, " seconds"));
    }
    limits.*known.limit = seconds == 0 ? absl::InfiniteDuration() : absl::Seconds(seconds);
    return absl::OkStatus();
  }
  const std::vector<std::string> names = StartupPhaseNames();
  return absl::InvalidArgumentError(absl::StrCat("`", phase, "` is not a phase of the start-up",
                                                 DidYouMean(name, names), "; they are ", absl::StrJoin(names, ", ")));
}

absl::Status SetStartupLimits(absl::string_view text, StartupLimits& limits) {
  StartupLimits changed = limits;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    double seconds = 0;
    if (pair.size() != 2 || !absl::SimpleAtod(pair[1], &seconds)) {
      return absl::InvalidArgumentError("must be phase=seconds, with commas, such as attach=30,first_step=3600");
    }
    RETURN_IF_ERROR(SetStartupLimit(pair[0], seconds, changed));
  }
  limits = changed;
  return absl::OkStatus();
}

}  // namespace composer

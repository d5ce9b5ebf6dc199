// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_option_setters.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "contract/startup_limits.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {
namespace {

constexpr double kMaxSeconds = 30.0 * 24 * 3600;

}  // namespace

// 0 is accepted, because on some platforms LOCAL_WORLD_SIZE is 0 on nodes without a GPU, where it means 1.
OptionSetter IntoWorkers(std::string* target) {
  return [target](absl::string_view value) -> absl::Status {
    int number = 0;
    const bool word = value == "auto" || value == "cpu" || value == "gpu";
    if (!word && (!absl::SimpleAtoi(value, &number) || number < 0 || number > kMaxSlots)) {
      return absl::InvalidArgumentError(
          absl::StrCat("must be a whole number from 1 to ", kMaxSlots, ", or auto, cpu, gpu"));
    }
    *target = std::string(value);
    return absl::OkStatus();
  };
}

OptionSetter IntoLocalRanks(std::vector<int>* target) {
  return [target](absl::string_view value) -> absl::Status {
    std::vector<int> ranks;
    for (const absl::string_view word : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
      int rank = 0;
      if (!absl::SimpleAtoi(word, &rank) || rank < 0 || rank >= kMaxSlots) {
        return absl::InvalidArgumentError("must be local ranks with commas, such as 0,2");
      }
      ranks.push_back(rank);
    }
    *target = std::move(ranks);
    return absl::OkStatus();
  };
}

OptionSetter IntoStartupLimits(std::string* target) {
  return [target](absl::string_view value) -> absl::Status {
    StartupLimits checked;
    if (absl::Status status = SetStartupLimits(value, checked); !status.ok()) return status;
    *target = std::string(value);
    return absl::OkStatus();
  };
}

OptionSetter IntoConf(std::map<std::string, std::string>* target) {
  return [target](absl::string_view value) -> absl::Status {
    std::map<std::string, std::string> result;
    for (const absl::string_view word : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
      const std::vector<std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
      if (pair.size() != 2 || pair[0].empty()) return absl::InvalidArgumentError("must be key=value, with commas");
      result[pair[0]] = pair[1];
    }
    *target = std::move(result);
    return absl::OkStatus();
  };
}

OptionSetter IntoNodes(int* min, int* max) {
  return [min, max](absl::string_view value) -> absl::Status {
    const std::vector<std::string> words = absl::StrSplit(value, ':');
    int low = 0, high = 0;
    const bool numbers =
        words.size() <= 2 && absl::SimpleAtoi(words.front(), &low) && absl::SimpleAtoi(words.back(), &high);
    if (!numbers || low < 1 || high < low || high > kMaxNodes) {
      return absl::InvalidArgumentError(absl::StrCat("must be N or MIN:MAX with 1 <= MIN <= MAX <= ", kMaxNodes));
    }
    *min = low;
    *max = high;
    return absl::OkStatus();
  };
}

OptionSetter IntoSeconds(double* target) {
  return [target](absl::string_view value) -> absl::Status {
    double number = 0;
    if (!absl::SimpleAtod(value, &number) || !(number >= 0 && number <= kMaxSeconds)) {
      return absl::InvalidArgumentError(absl::StrCat("must be seconds from 0 to ", kMaxSeconds));
    }
    *target = number;
    return absl::OkStatus();
  };
}

OptionSetter IntoStreams(StreamChoice* target) {
  return [target](absl::string_view value) -> absl::Status {
    const absl::Status refusal = absl::InvalidArgumentError(
        "must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or these by local rank: 0:3,1:1");
    StreamChoice choice;
    choice.given = true;
    if (value == "true") value = "3";
    if (value == "false") value = "0";
    for (const absl::string_view word : absl::StrSplit(value, ',')) {
      const std::vector<absl::string_view> parts = absl::StrSplit(word, ':');
      int rank = 0, streams = 0;
      if (parts.size() > 2 || !absl::SimpleAtoi(parts.back(), &streams) || streams < 0 || streams > 3) return refusal;
      if (parts.size() == 2 && (!absl::SimpleAtoi(parts[0], &rank) || rank < 0 || rank >= kMaxSlots)) return refusal;
      if (parts.size() == 1 && word.size() != value.size()) return refusal;
      if (parts.size() == 1) choice.all = streams;
      if (parts.size() == 2) choice.one[rank] = streams;
    }
    *target = std::move(choice);
    return absl::OkStatus();
  };
}

OptionSetter IntoNodeGroup(std::string* target) {
  return [target](absl::string_view value) -> absl::Status {
    if (value.size() > kMaxNodeGroupBytes || !std::all_of(value.begin(), value.end(), absl::ascii_isgraph)) {
      return absl::InvalidArgumentError(
          absl::StrCat("must be a name of at most ", kMaxNodeGroupBytes, " characters, without spaces"));
    }
    *target = std::string(value);
    return absl::OkStatus();
  };
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "launcher/options/launch_option_table.h"

namespace composer {
namespace {

// Applies those of torchrun's rendezvous settings that have a meaning here.
absl::Status ApplyConf(LaunchOptions& options) {
  const std::vector<std::string> known = {
      "join_timeout",        "last_call_timeout",      "is_host",    "timeout",
      "read_timeout",        "close_timeout",          "rank",       "heartbeat_timeout",
      "keep_alive_interval", "keep_alive_max_attempt", "store_type", "cas_backoff_max_seconds"};
  for (const auto& [key, value] : options.rdzv_conf) {
    double* seconds = key == "join_timeout" || key == "timeout" ? &options.join_timeout
                      : key == "last_call_timeout"              ? &options.last_call
                                                                : nullptr;
    if (seconds != nullptr && (!absl::SimpleAtod(value, seconds) || !(*seconds >= 0 && *seconds < 1e9))) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rdzv-conf: ", key, " is `", value, "`, it must be a number of seconds"));
    }
    bool host = false;
    if (key == "is_host" && !absl::SimpleAtob(value, &host)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rdzv-conf: is_host is `", value, "`, it must be true or false"));
    }
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--rdzv-conf: `", key, "` is not known", DidYouMean(key, known)));
    }
  }
  return absl::OkStatus();
}

// An action replaces the launch and is not one of its settings.
bool IsAction(absl::string_view name) {
  static constexpr absl::string_view kActions[] = {"dry-run", "explain", "help", "print-completion", "version"};
  return std::find(std::begin(kActions), std::end(kActions), name) != std::end(kActions);
}

}  // namespace

const OptionValue* LaunchOptions::Given(absl::string_view name) const {
  for (const OptionValue& value : values) {
    if (value.name == name) return value.origin == "default" ? nullptr : &value;
  }
  return nullptr;
}

absl::StatusOr<LaunchOptions> ParseLaunchOptions(const std::vector<std::string>& arguments,
                                                 const Environment& environment) {
  LaunchOptions options;
  ASSIGN_OR_RETURN(ParsedOptions parsed, ParseOptions(Flatten(LaunchOptionTable(options)), arguments, environment));
  const std::vector<Option> table = Flatten(LaunchOptionTable(options));
  for (size_t i = 0; i < parsed.values.size(); ++i) {  // settings without effect are shown only to those who gave them
    OptionValue& value = parsed.values[i];
    if (IsAction(value.name)) continue;
    if (!table[i].hidden || value.origin != "default") options.values.push_back(std::move(value));
  }
  options.words = std::move(parsed.rest);
  RETURN_IF_ERROR(ApplyConf(options));
  return options;
}

}  // namespace composer

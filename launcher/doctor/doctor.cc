// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/doctor.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/option_help.h"
#include "base/options.h"
#include "contract/exit_code.h"
#include "launcher/doctor/doctor_checks.h"
#include "launcher/options/launch_shape.h"
#include "launcher/options/print_help.h"

namespace composer {
namespace {

std::string AsText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) {
    absl::StrAppendFormat(&text, "%-4s  %-8s %s\n", HealthName(f.health), f.area, f.text);
    if (!f.advice.empty()) absl::StrAppendFormat(&text, "%-15s-> %s\n", "", f.advice);
  }
  return text;
}

std::string AsJson(const std::vector<Finding>& findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& f : findings) {
    list.push_back({{"health", HealthName(f.health)}, {"area", f.area}, {"text", f.text}, {"advice", f.advice}});
  }
  // A path on disk need not be UTF-8.
  return list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

int DoctorCommand(const std::vector<std::string>& arguments, const Environment& environment) {
  bool json = false, help = false;
  std::string run_folder = "runs";
  const std::vector<Option> table = {
      Switch("json", "print JSON", IntoBool(&json)),
      Valued("run-folder", "FOLDER", "where checkpoints are to go", run_folder, IntoString(&run_folder)),
      HelpSwitch(&help),
  };
  const auto parsed = ParseOptions(table, arguments, environment);
  if (!parsed.ok()) return UserError(parsed.status().message());
  if (help) {
    return PrintHelp(CommandHelp("composer doctor [flags] [HOST:PORT]",
                                 "Checks this machine, and whether it reaches HOST:PORT, and says what to fix.", table,
                                 HelpColumns()));
  }
  if (parsed->rest.size() > 1) return UserError("doctor takes one HOST:PORT");
  std::vector<Endpoint> endpoints;
  if (!parsed->rest.empty()) {
    auto given = ParseEndpoints(parsed->rest[0], kDefaultMasterPort);
    if (!given.ok()) return UserError(given.status().message());
    endpoints = *std::move(given);
  }
  const std::vector<Finding> findings =
      Diagnose(GatherDoctorFacts(environment, run_folder, endpoints.empty() ? nullptr : &endpoints[0]));
  std::fputs((json ? AsJson(findings) : AsText(findings)).c_str(), stdout);
  std::fflush(stdout);
  return WorstOf(findings) == Health::kFail ? exit_code::kUnavailable : exit_code::kDone;
}

}  // namespace composer

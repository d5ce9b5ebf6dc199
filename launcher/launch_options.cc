// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_options.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int kMaxWorkers = 4096;
constexpr int kMaxRestarts = 1'000'000;

std::vector<Option> Table(LaunchOptions& o) {
  return {
      {.name = "nproc",
       .short_name = 'n',
       .environment = {"LOCAL_WORLD_SIZE"},
       .metavar = "N",
       .help = "workers on this node",
       .fallback = "one a GPU, else 1",
       .set = IntoInt(&o.nproc, 1, kMaxWorkers)},
      {.name = "max-restarts",
       .metavar = "N",
       .help = "restarts without progress before giving up",
       .fallback = "3 for YAML jobs, 0 for programs",
       .set = IntoInt(&o.max_restarts, 0, kMaxRestarts)},
      {.name = "master_port",
       .metavar = "PORT",
       .help = "port of the rendezvous",
       .fallback = "a free one",
       .set = IntoInt(&o.master_port, 1, 65535)},
      {.name = "command-mode", .short_name = 'c', .help = "run an executable", .set = IntoBool(&o.command)},
      {.name = "module-mode", .short_name = 'm', .help = "run a Python module", .set = IntoBool(&o.module)},
      {.name = "tee", .help = "show the output of all ranks, prefixed [rank]", .set = IntoBool(&o.tee)},
      {.name = "verbose", .short_name = 'v', .help = "say more", .set = IntoBool(&o.verbose)},
      {.name = "explain", .help = "print each setting with its origin, and stop", .set = IntoBool(&o.explain)},
      {.name = "dry-run", .help = "print what would be started, and stop", .set = IntoBool(&o.dry_run)},
      {.name = "version", .help = "print the version", .set = IntoBool(&o.version)},
      {.name = "help", .short_name = 'h', .help = "print this", .set = IntoBool(&o.help)},
  };
}

constexpr char kUsage[] =
    R"(composer trains neural networks and keeps the training alive.

usage:
  composer [flags] job.yaml [key=value ...]     train, as the YAML file says
  composer [flags] script.py [arguments ...]    start a Python script on N ranks
  composer [flags] -c program [arguments ...]   start any other program on N ranks
  composer checkpoint show|diff|verify PATH     look at checkpoints
  composer validate job.yaml                    check a YAML file
  composer serve [--port PORT] [--job NAME]     run the rendezvous alone
  composer version

flags (- and _ are equal in names):
)";

constexpr char kExitCodes[] = R"(
exit codes: 0 done, 64 wrong usage, 69 a peer or service is unavailable, 70 failure, 75 preempted after a checkpoint (run
the same command again), 93 restarts spent, 128+n killed by signal n
)";

}  // namespace

absl::StatusOr<LaunchOptions> ParseLaunchOptions(const std::vector<std::string>& arguments,
                                                 const Environment& environment) {
  LaunchOptions options;
  ASSIGN_OR_RETURN(ParsedOptions parsed, ParseOptions(Table(options), arguments, environment));
  options.values = std::move(parsed.values);
  options.words = std::move(parsed.rest);
  return options;
}

std::string LaunchHelp() {
  LaunchOptions unused;
  return absl::StrCat(kUsage, OptionsHelp(Table(unused)), kExitCodes);
}

}  // namespace composer

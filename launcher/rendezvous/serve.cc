// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/serve.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/console.h"
#include "base/option_help.h"
#include "base/options.h"
#include "contract/exit_code.h"
#include "launcher/options/launch_option_setters.h"
#include "launcher/options/print_help.h"
#include "net/endpoint.h"
#include "rendezvous/failover/succession.h"
#include "rendezvous/server.h"

namespace composer {
namespace {

constexpr absl::Duration kFlushPatience = absl::Seconds(1);  // for a blocked terminal at the end

void Report(int fd, const std::string& line) {
  [[maybe_unused]] const ssize_t ignored = write(fd, line.data(), line.size());
  close(fd);
}

std::string Explain(const absl::Status& status, const ServeOptions& options) {
  if (!absl::IsAlreadyExists(status)) return std::string(status.message());
  const int port = options.port;
  if (options.of_launcher && options.report_fd < 0) {  // the port was the job's before
    return absl::StrCat("port ", port, " of the rendezvous is in use by another process (ss -ltnp 'sport = :", port,
                        "' names it)");
  }
  return absl::StrCat("port ", port,
                      " is in use: choose another --master_port, leave it out to get a free one, or end what listens "
                      "there (ss -ltnp 'sport = :",
                      port, "')");
}

const char* NameOf(GrowPolicy policy) {
  switch (policy) {
    case GrowPolicy::kAtCheckpoint:
      return "checkpoint";
    case GrowPolicy::kNow:
      return "now";
    case GrowPolicy::kNever:
      break;
  }
  return "never";
}

int Refuse(const ServeOptions& options, absl::string_view error) {
  options.report_fd >= 0 ? Report(options.report_fd, absl::StrCat("error ", error, "\n")) : PrintErrorToUser(error);
  return exit_code::kUserError;
}

// Returns the signals that end a separate `composer serve`; they are blocked so that sigwait takes them.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

// Returns the options of `composer serve`, which fill what is given.
std::vector<Option> ServeTable(ServeOptions& options, SecurityFlags& security, bool& help) {
  std::vector<Option> table = {
      Valued("port", "PORT", "to listen on", "a free one, printed", IntoInt(&options.port, 0, 65535)),
      Valued("job", "NAME", "the run_name it serves", options.job, IntoString(&options.job)),
      Valued("bind", "ADDRESS", "address to listen on", options.bind_address, IntoString(&options.bind_address)),
      {.name = "nodes",
       .aliases = {"nnodes"},
       .metavar = "N|MIN:MAX",
       .help = "nodes to wait for",
       .fallback = "1",
       .set = IntoNodes(&options.min_nodes, &options.max_nodes)},
      Valued("last-call", "SECONDS", "how long to wait for more nodes when MIN are there", "1",
             IntoSeconds(&options.last_call_seconds)),
      Valued("grow", "WHEN", "a running world takes in nodes that wait: checkpoint (after one), now, never",
             "checkpoint",
             [&options](absl::string_view text) {
               if (ParseGrowPolicy(std::string(text), &options.grow)) return absl::OkStatus();
               return absl::InvalidArgumentError("must be checkpoint, now or never");
             }),
      Valued("rdzv-grace", "SECONDS", "how long a running world's nodes may take to come back after a restart", "60",
             IntoInt(&options.grace_seconds, 0, 86400)),
      Valued("rdzv-blip", "SECONDS", "how long a node that the others reach may be cut off; 0: it is lost at once",
             "10", IntoInt(&options.blip_seconds, 0, 3600)),
      Valued("settle", "SECONDS", "form no world before, unless nodes tell of a running one; for a restart", "0",
             IntoInt(&options.settle_seconds, 0, 86400)),
      Valued("place", "N", "index in the list of servers", "", IntoInt(&options.place, 0, 63)),
      Valued("places", "N", "length of that list", "", IntoInt(&options.places, 1, 64)),
      Switch("of-launcher", "leave its end to the launcher", IntoBool(&options.of_launcher)),
      HelpSwitch(&help),
  };
  for (Option& option : SecurityOptions(&security)) table.push_back(std::move(option));
  return table;
}

}  // namespace

int Serve(const ServeOptions& options) {
  prctl(PR_SET_NAME, "composer-serve");
  const sigset_t signals = StopSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  Console console;  // a rendezvous that waits for a terminal would delay every node
  const absl::Cleanup flush = [&console] { console.Flush(kFlushPatience); };
  const absl::StatusOr<Credentials> credentials = MakeCredentials(options.security);
  if (!credentials.ok()) return Refuse(options, credentials.status().message());
  auto server = RendezvousServer::Start({.job = options.job,
                                         .bind_address = options.bind_address,
                                         .port = options.port,
                                         .min_nodes = options.min_nodes,
                                         .max_nodes = options.max_nodes,
                                         .last_call = absl::Seconds(options.last_call_seconds),
                                         .grow = options.grow,
                                         .quorum = options.places > 1,
                                         .holds_tie = options.place == 0,
                                         .quorum_wait = QuorumWaitOf(options.place, options.places),
                                         .grace = absl::Seconds(options.grace_seconds),
                                         .blip = absl::Seconds(options.blip_seconds),
                                         .settle = absl::Seconds(options.settle_seconds),
                                         .credentials = *credentials,
                                         .clock = &RealClock::Get()});
  if (!server.ok()) return Refuse(options, Explain(server.status(), options));
  if (options.report_fd >= 0) {
    Report(options.report_fd, absl::StrCat("port ", (*server)->port(), "\n"));
  } else if (!options.of_launcher) {
    std::printf("%d\n", (*server)->port());
    std::fflush(stdout);
  }
  int signal = 0;
  do {
    sigwait(&signals, &signal);
  } while (options.of_launcher);
  return exit_code::kDone;
}

std::vector<std::string> ToArguments(const ServeOptions& options) {
  std::vector<std::string> arguments = {absl::StrCat("--port=", options.port),
                                        absl::StrCat("--job=", options.job),
                                        absl::StrCat("--bind=", options.bind_address),
                                        absl::StrCat("--nodes=", options.min_nodes, ":", options.max_nodes),
                                        absl::StrCat("--last-call=", options.last_call_seconds),
                                        absl::StrCat("--grow=", NameOf(options.grow)),
                                        absl::StrCat("--rdzv-grace=", options.grace_seconds),
                                        absl::StrCat("--rdzv-blip=", options.blip_seconds),
                                        absl::StrCat("--settle=", options.settle_seconds),
                                        absl::StrCat("--place=", options.place),
                                        absl::StrCat("--places=", options.places)};
  for (std::string& argument : SecurityArguments(options.security)) arguments.push_back(std::move(argument));
  if (options.of_launcher) arguments.push_back("--of-launcher");
  return arguments;
}

int ServeCommand(const std::vector<std::string>& arguments, const Environment& environment) {
  ServeOptions options;
  bool help = false;
  SecurityFlags security;
  const std::vector<Option> table = ServeTable(options, security, help);
  const auto parsed = ParseOptions(table, arguments, environment);
  if (!parsed.ok() || !parsed->rest.empty()) {
    PrintErrorToUser(parsed.ok() ? absl::StrCat("serve takes no argument `", parsed->rest[0], "`")
                                 : std::string(parsed.status().message()));
    return exit_code::kUserError;
  }
  if (help) {
    return PrintHelp(CommandHelp("composer serve [flags]", "Runs the rendezvous of one job alone, and prints its port.",
                                 table, HelpColumns()));
  }
  auto chosen = ChooseSecurity(security, environment, !IsLoopbackName(options.bind_address));
  if (!chosen.ok()) return Refuse(options, chosen.status().message());
  options.security = *std::move(chosen);
  return Serve(options);
}

absl::StatusOr<int> ReadServePort(int fd) {
  std::string text;
  char buffer[512];
  while (text.size() < sizeof(buffer)) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer, static_cast<size_t>(count));
  }
  absl::string_view line = absl::StripSuffix(text, "\n");
  int port = 0;
  if (absl::ConsumePrefix(&line, "port ") && absl::SimpleAtoi(line, &port)) return port;
  if (absl::ConsumePrefix(&line, "error ")) return absl::InvalidArgumentError(line);
  return absl::UnavailableError("the rendezvous process ended before it could listen");
}

}  // namespace composer

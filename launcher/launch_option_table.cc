// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_option_table.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "rendezvous/rank_layout.h"

namespace composer {
namespace {

constexpr int kMaxRestarts = 1'000'000;
constexpr int kMaxWorldSize = kMaxNodes * kMaxSlots;
constexpr double kMaxSeconds = 30.0 * 24 * 3600;

// From 0: LOCAL_WORLD_SIZE is 0 on nodes without a GPU of some platforms, and then means 1.
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

// Taken so that command lines of torchrun work; there is nothing to set here.
OptionSetter Nothing() {
  return [](absl::string_view) { return absl::OkStatus(); };
}

OptionGroup Workers(LaunchOptions& o) {
  return {"workers and nodes",
          {{.name = "nproc",
            .aliases = {"nproc-per-node"},
            .short_name = 'n',
            .environment = {"PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE"},
            .metavar = "N",
            .help = "workers on this node; auto: one a GPU, else one a CPU",
            .fallback = "one a GPU, else 1",
            .set = IntoWorkers(&o.nproc),
            .choices = {"auto", "cpu", "gpu"}},
           {.name = "world-size",
            .environment = {"WORLD_SIZE"},
            .metavar = "N",
            .help = "workers on all nodes together",
            .fallback = "nproc",
            .set = IntoInt(&o.world_size, 1, kMaxWorldSize)},
           {.name = "nnodes",
            .environment = {"PET_NNODES"},
            .metavar = "N|MIN:MAX",
            .help = "nodes, or the least and the greatest number of them",
            .fallback = "world-size / nproc",
            .set = IntoNodes(&o.min_nodes, &o.max_nodes)},
           {.name = "node-rank",
            .environment = {"PET_NODE_RANK", "NODE_RANK"},
            .metavar = "N",
            .help = "which of the nodes this is, from 0",
            .set = IntoInt(&o.node_rank, 0, kMaxNodes - 1)},
           {.name = "base-rank",
            .environment = {"BASE_RANK"},
            .metavar = "N",
            .help = "global rank of this node's first worker",
            .fallback = "node-rank x nproc",
            .set = IntoInt(&o.base_rank, 0, kMaxWorldSize - 1)}}};
}

OptionGroup Meeting(LaunchOptions& o) {
  return {"where the nodes meet",
          {{.name = "master-addr",
            .environment = {"PET_MASTER_ADDR", "MASTER_ADDR"},
            .metavar = "HOST",
            .help = "address of node 0, which hosts the rendezvous",
            .fallback = "127.0.0.1 with one node",
            .set = IntoString(&o.master_addr)},
           {.name = "master-port",
            .environment = {"PET_MASTER_PORT", "MASTER_PORT"},
            .metavar = "PORT",
            .help = "port of the rendezvous; scripts get a MASTER_PORT of their own",
            .fallback = "a free one with one node, else 29500",
            .set = IntoInt(&o.master_port, 0, 65535)},
           {.name = "rdzv-endpoint",
            .environment = {"PET_RDZV_ENDPOINT"},
            .metavar = "HOST[:PORT]",
            .help = "the same in one; hosted by the node that has this address, or by composer serve",
            .set = IntoString(&o.rdzv_endpoint)},
           {.name = "rdzv-id",
            .aliases = {"run-id"},
            .environment = {"PET_RDZV_ID"},
            .metavar = "NAME",
            .help = "name of the job at the rendezvous",
            .fallback = "the run name, or the program's",
            .set = IntoString(&o.rdzv_id)},
           {.name = "rdzv-backend",
            .environment = {"PET_RDZV_BACKEND"},
            .metavar = "NAME",
            .help = "static or c10d, which are one here",
            .set = IntoChoice(&o.rdzv_backend, {"static", "c10d"}),
            .choices = {"static", "c10d"}},
           {.name = "rdzv-conf",
            .environment = {"PET_RDZV_CONF"},
            .metavar = "K=V,...",
            .help = "join_timeout, last_call_timeout, is_host",
            .set = IntoConf(&o.rdzv_conf)},
           {.name = "standalone",
            .environment = {"PET_STANDALONE"},
            .help = "one node, a free port",
            .set = IntoBool(&o.standalone)},
           {.name = "local-addr",
            .environment = {"PET_LOCAL_ADDR"},
            .metavar = "ADDRESS",
            .help = "address that the other nodes reach this one at",
            .fallback = "that of the interface towards the master",
            .set = IntoString(&o.local_addr)},
           {.name = "join-timeout",
            .metavar = "SECONDS",
            .help = "how long to wait for the rendezvous and for the other nodes",
            .fallback = "600",
            .set = IntoSeconds(&o.join_timeout)},
           {.name = "last-call",
            .metavar = "SECONDS",
            .help = "how long to wait for more nodes when MIN of MIN:MAX are there",
            .fallback = "1",
            .set = IntoSeconds(&o.last_call)}}};
}

OptionGroup Programs(LaunchOptions& o) {
  return {"the program",
          {{.name = "command-mode",
            .aliases = {"no-python"},
            .short_name = 'c',
            .environment = {"PET_NO_PYTHON"},
            .help = "run an executable, whatever its name",
            .set = IntoBool(&o.command)},
           {.name = "module-mode",
            .aliases = {"module"},
            .short_name = 'm',
            .environment = {"PET_MODULE"},
            .help = "run a Python module",
            .set = IntoBool(&o.module)},
           {.name = "run-path",
            .environment = {"PET_RUN_PATH"},
            .help = "run a Python script, whatever its name",
            .set = IntoBool(&o.run_path)},
           {.name = "expand-vars",
            .help = "replace $NAME and ~ in the program's arguments, by each rank's environment",
            .set = IntoBool(&o.expand_vars)},
           {.name = "role",
            .environment = {"PET_ROLE"},
            .metavar = "NAME",
            .help = "ROLE_NAME of the workers",
            .fallback = "default",
            .set = IntoString(&o.role)},
           {.name = "max-restarts",
            .environment = {"PET_MAX_RESTARTS"},
            .metavar = "N",
            .help = "restarts without progress before giving up",
            .fallback = "3 for YAML jobs, 0 for programs",
            .set = IntoInt(&o.max_restarts, 0, kMaxRestarts)}}};
}

OptionGroup Output(LaunchOptions& o) {
  return {
      "output",
      {{.name = "stdout",
        .metavar = "FILE",
        .help = "file for the stdout of local ranks over 0, with {rank} {local_rank} {node_rank} ...",
        .set = IntoString(&o.stdout_file)},
       {.name = "stderr", .metavar = "FILE", .help = "the same for their stderr", .set = IntoString(&o.stderr_file)},
       {.name = "log-dir",
        .environment = {"PET_LOG_DIR"},
        .metavar = "FOLDER",
        .help = "where the files of --redirects and --tee go, one a stream; alone: of all streams",
        .set = IntoString(&o.log_dir)},
       {.name = "redirects",
        .short_name = 'r',
        .environment = {"PET_REDIRECTS"},
        .metavar = "STREAMS",
        .help = "to files only: 1 stdout, 2 stderr, 3 both, 0:3,1:1 by local rank",
        .fallback = "0",
        .set = IntoStreams(&o.redirects)},
       {.name = "tee",
        .short_name = 't',
        .environment = {"PET_TEE"},
        .metavar = "STREAMS",
        .help = "to the files of --log-dir and, prefixed [rank], to the terminal",
        .fallback = "0",
        .set = IntoStreams(&o.tee),
        .implied = "3"},
       {.name = "local-ranks-filter",
        .environment = {"PET_LOCAL_RANKS_FILTER"},
        .metavar = "N,...",
        .help = "show the output of these local ranks only",
        .fallback = "all",
        .set = IntoLocalRanks(&o.local_ranks_filter)}}};
}

OptionGroup Others(LaunchOptions& o) {
  return {"other",
          {{.name = "verbose", .short_name = 'v', .help = "say more", .set = IntoBool(&o.verbose)},
           {.name = "explain", .help = "print each setting with its origin, and stop", .set = IntoBool(&o.explain)},
           {.name = "dry-run", .help = "print what would be started, and stop", .set = IntoBool(&o.dry_run)},
           {.name = "print-completion",
            .metavar = "SHELL",
            .help = "print the completion of bash or zsh, or man for the manual page",
            .set = IntoChoice(&o.print_completion, {"bash", "zsh", "man"}),
            .choices = {"bash", "zsh", "man"}},
           {.name = "version", .help = "print the version", .set = IntoBool(&o.version)},
           {.name = "help", .short_name = 'h', .help = "print this", .set = IntoBool(&o.help)}}};
}

// torchrun's flags for what needs no setting here: exits are seen at once, and there is one way to start a process.
OptionGroup WithoutEffect() {
  return {"",
          {{.name = "monitor-interval",
            .environment = {"PET_MONITOR_INTERVAL"},
            .metavar = "SECONDS",
            .set = Nothing(),
            .hidden = true},
           {.name = "start-method",
            .environment = {"PET_START_METHOD"},
            .metavar = "NAME",
            .set = Nothing(),
            .hidden = true},
           {.name = "event-log-handler",
            .environment = {"PET_EVENT_LOG_HANDLER"},
            .metavar = "NAME",
            .set = Nothing(),
            .hidden = true},
           {.name = "signals-to-handle",
            .environment = {"PET_SIGNALS_TO_HANDLE"},
            .metavar = "NAMES",
            .set = Nothing(),
            .hidden = true}}};
}

}  // namespace

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

std::vector<OptionGroup> LaunchOptionTable(LaunchOptions& options) {
  return {Workers(options), Meeting(options), Programs(options), Output(options), Others(options), WithoutEffect()};
}

}  // namespace composer

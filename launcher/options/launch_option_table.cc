// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_option_table.h"

#include "launcher/options/launch_option_setters.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {
namespace {

constexpr int kMaxRestarts = 1'000'000;
constexpr int kMaxWorldSize = kMaxNodes * kMaxSlots;

OptionGroup Workers(LaunchOptions& o) {
  return {"workers and nodes",
          {{.name = "nproc",
            .aliases = {"nproc-per-node"},
            .short_name = 'n',
            .environment = {"PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE"},
            .metavar = "N",
            .help = "workers on this node; auto: one per GPU, else one per CPU",
            .fallback = "one per GPU, else 1",
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
            .set = IntoInt(&o.base_rank, 0, kMaxWorldSize - 1)},
           {.name = "node-group",
            .environment = {"COMPOSER_NODE_GROUP"},
            .metavar = "NAME",
            .help = "switch, rack or block of this node: nodes without a given rank get neighbours of their group",
            .fallback = "Slurm's, from SLURM_TOPOLOGY_ADDR",
            .set = IntoNodeGroup(&o.node_group)}}};
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
           {.name = "rdzv-blip",
            .metavar = "SECONDS",
            .help = "how long a node that the others reach may be cut off from the rendezvous; 0: it is lost at once",
            .fallback = "10",
            .set = IntoInt(&o.rdzv_blip, 0, 3600)},
           {.name = "rdzv-grace",
            .metavar = "SECONDS",
            .help = "how long workers continue without the rendezvous before the job is given up",
            .fallback = "60",
            .set = IntoInt(&o.rdzv_grace, 0, 86400)},
           {.name = "last-call",
            .metavar = "SECONDS",
            .help = "how long to wait for more nodes when MIN of MIN:MAX are there",
            .fallback = "1",
            .set = IntoSeconds(&o.last_call)},
           {.name = "grow",
            .environment = {"COMPOSER_GROW"},
            .metavar = "WHEN",
            .help = "a running world takes in nodes that come later: checkpoint (after one), now, never (but the next "
                    "restart does)",
            .fallback = "checkpoint for YAML jobs, never for programs",
            .set = IntoChoice(&o.grow, {"checkpoint", "now", "never"}),
            .choices = {"checkpoint", "now", "never"}}}};
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
            .set = IntoInt(&o.max_restarts, 0, kMaxRestarts)},
           {.name = "startup-limits",
            .environment = {"COMPOSER_STARTUP_LIMITS"},
            .metavar = "PHASE=SECONDS,...",
            .help = "how long a worker of a job may make no progress in attach, group, build, load, first_step; 0: "
                    "without limit",
            .fallback = "60, 300, 600, 900, 1200",
            .set = IntoStartupLimits(&o.startup_limits)}}};
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

OptionGroup Stopping(LaunchOptions& o) {
  return {
      "being stopped",
      {{.name = "preemption",
        .environment = {"COMPOSER_PREEMPTION"},
        .metavar = "SOURCES",
        .help =
            "who announces that the machine will go: aws, aws-rebalance, gcp, azure, file:PATH, auto (by the firmware)",
        .fallback = "off",
        .set = IntoString(&o.preemption),
        .choices = {"auto", "aws", "aws-rebalance", "azure", "file:", "gcp", "off"}},
       {.name = "requeue",
        .environment = {"COMPOSER_REQUEUE"},
        .metavar = "BOOL",
        .help = "a Slurm batch job that was stopped after a checkpoint asks to be run again",
        .fallback = "true",
        .set = IntoBool(&o.requeue),
        .implied = "true"}}};
}

OptionGroup Others(LaunchOptions& o) {
  return {"other",
          {{.name = "verbose", .short_name = 'v', .help = "say more", .set = IntoBool(&o.verbose)},
           {.name = "explain", .help = "print each setting with its origin, and stop", .set = IntoBool(&o.explain)},
           {.name = "dry-run", .help = "print what would be started, and stop", .set = IntoBool(&o.dry_run)},
           {.name = "print-completion",
            .metavar = "SHELL",
            .help = "print the completion of bash, fish or zsh, or man for the manual page",
            .set = IntoChoice(&o.print_completion, {"bash", "fish", "zsh", "man", "jobs"}),
            .choices = {"bash", "fish", "zsh", "man"}},
           {.name = "version", .help = "print the version", .set = IntoBool(&o.version)},
           {.name = "help", .short_name = 'h', .help = "print this", .set = IntoBool(&o.help)}}};
}

// Accepts any value, so that torchrun's command lines work; there is nothing to set here.
OptionSetter Nothing() {
  return [](absl::string_view) { return absl::OkStatus(); };
}

// torchrun's flags for what needs no setting here: exits are noticed at once, and there is one way to start a process.
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

std::vector<OptionGroup> LaunchOptionTable(LaunchOptions& options) {
  return {Workers(options),
          Meeting(options),
          Programs(options),
          Output(options),
          Stopping(options),
          {"security", SecurityOptions(&options.security)},
          {"being watched", ControlPlaneOptions(&options.control_plane)},
          Others(options),
          WithoutEffect()};
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "job/job_profiler.h"

namespace composer {
namespace {

CyclicSchedule ReadSchedule(ConfigMap config) {
  constexpr int64_t kMost = int64_t{1} << 40;  // sums and products of a few of these stay far from overflow
  CyclicSchedule schedule;
  schedule.skip_first = config.Int("skip_first", schedule.skip_first, {.min = 0, .max = kMost});
  schedule.wait = config.Int("wait", schedule.wait, {.min = 0, .max = 1 << 20});
  schedule.warmup = config.Int("warmup", schedule.warmup, {.min = 0, .max = 1 << 20});
  schedule.active = config.Int("active", schedule.active, {.min = 1, .max = 1 << 20});
  schedule.repeat = config.Int("repeat", schedule.repeat, {.min = 0, .max = 1 << 20});
  return schedule;
}

void ReadTraceHandler(ConfigMap config, ProfilerOptions& options) {
  options.folder = config.String("folder", options.folder);
  options.filename = config.String("filename", options.filename);
  options.merged_trace_filename = config.String("merged_trace_filename", options.merged_trace_filename);
  options.num_traces_to_keep =
      static_cast<int>(config.Int("num_traces_to_keep", options.num_traces_to_keep, {.min = -1, .max = 1 << 20}));
}

void ReadOps(ConfigMap& config, ProfilerOptions& options) {
  options.ops.record_shapes = config.Bool("torch_prof_record_shapes", options.ops.record_shapes);
  options.ops.profile_memory = config.Bool("torch_prof_profile_memory", options.ops.profile_memory);
  options.ops.with_flops = config.Bool("torch_prof_with_flops", options.ops.with_flops);
  if (config.Bool("torch_prof_with_stack", false))
    config.Reject("torch_prof_with_stack", "a native program has no Python stacks to record; leave it out");
  options.memory_filename = config.String("torch_prof_memory_filename", options.memory_filename);
}

}  // namespace

std::optional<ProfilerOptions> ReadProfiler(ConfigMap root) {
  ConfigMap config = root.Map("profiler");
  if (!config.exists()) return std::nullopt;
  ProfilerOptions options;
  options.schedule = ReadSchedule(config.Map("schedule"));
  ReadTraceHandler(config.Map("json_trace_handler"), options);
  if (ConfigMap tensorboard = config.Map("tensorboard_trace_handler"); tensorboard.exists()) {
    const std::string folder = tensorboard.String("folder", "{run_folder}/tensorboard_traces");
    if (const absl::Status status = CheckName(folder); !status.ok()) tensorboard.Reject("folder", status.message());
    options.trace_handlers.push_back(std::make_shared<TensorBoardTraceHandler>(folder));
  }
  ReadOps(config, options);
  options.roofline = config.Bool("roofline", false);
  if (options.roofline && root.Choice("device", {"cpu", "gpu"}, "cpu") == "gpu") {
    config.Reject("roofline", "needs device: cpu; the operators of a GPU run after the host has called them");
  }
  options.system.cpu = config.Bool("sys_prof_cpu", options.system.cpu);
  options.system.memory = config.Bool("sys_prof_memory", options.system.memory);
  options.system.disk = config.Bool("sys_prof_disk", options.system.disk);
  options.system.net = config.Bool("sys_prof_net", options.system.net);
  options.system.interval =
      absl::Seconds(config.Double("sys_prof_stats_thread_interval_seconds", 0.5, {.min = 0.001, .max = 3600}));
  // The remaining checks concern names, and their messages say which key is wrong.
  if (const absl::Status status = Validate(options); !status.ok()) root.Reject("profiler", status.message());
  return options;
}

ProfilerOptions ProfilerOnRequest() {
  ProfilerOptions options;
  options.schedule = [](const SchedulePosition&) { return ProfilerAction::kSkip; };
  return options;
}

}  // namespace composer

// The profiler of a job, with mosaicml's names:
//
//   profiler:
//     schedule: {skip_first: 0, wait: 0, warmup: 1, active: 4, repeat: 1}
//     json_trace_handler: {folder: "{run_folder}/traces", filename: "ep{epoch}-ba{batch}-rank{rank}.json",
//                          merged_trace_filename: merged_trace.json, num_traces_to_keep: -1}
//     sys_prof_cpu: true        # sys_prof_memory, sys_prof_disk, sys_prof_net: false
//     sys_prof_stats_thread_interval_seconds: 0.5
//     torch_prof_profile_memory: true        # torch_prof_with_flops: true, torch_prof_record_shapes: false
//                                            # (all three false: no operators)
//     torch_prof_memory_filename: "ep{epoch}-ba{batch}-rank{rank}.memory.html"        # "": none
//     roofline: false        # ours: each layer's share of the machine's measured peak
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "config/config_map.h"
#include "trainer/profiler/profiler.h"

namespace composer {

// Returns nullopt without the key. Errors go to the reader.
std::optional<ProfilerOptions> ReadProfiler(ConfigMap root);
// Returns the profiler of a job without one: it records only what is asked for while the run goes on.
ProfilerOptions ProfilerOnRequest();

}  // namespace composer

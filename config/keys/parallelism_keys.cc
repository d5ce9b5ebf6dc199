// How a step is spread over ranks, and the profiler that looks at it.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kParallelismKeys[] = R"(
[map compile] Arguments of torch.compile.
disable | bool | false | Leave compile_config out.
fullgraph | bool | false | There is no graph to break.
dynamic | bool | - | Shapes may change at any step.
backend | text | inductor | Of torch.
mode | one of default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs | - | Of torch.
options | map | - | Of Inductor; not with mode.

[map ddp] How gradients are summed over ranks.
bucket_cap_mb | number 1e-6..1048576 | 25 | MiB of a bucket of gradients.
first_bucket_cap_mb | number 1e-6..1048576 | 1 | MiB of the first one.
gradient_compression | one of none, bf16, bf16_sum_fp32 | (none; bf16 with NO_SHARD and reduce_dtype bfloat16) | What \
is sent.
find_unused_parameters | bool | false | Look for parameters that a step does not use before backward.

[map mixed_precision] Types of what FSDP gathers and sums.
param_dtype | one of float32, bfloat16, float16, fp32, bf16, fp16 | (float32) | Of gathered parameters.
reduce_dtype | one of float32, bfloat16, float16, fp32, bf16, fp16 | (float32) | Of gradients that are summed.
buffer_dtype | one of float32, bfloat16, float16, fp32, bf16, fp16 | (float32) | Of buffers: float32.

[map fsdp] Parameters, gradients and optimizer state spread over ranks.
sharding_strategy | one of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, _HYBRID_SHARD_ZERO2 | FULL_SHARD | What \
is spread.
data_parallel_shard_degree | int -1..1048576 | -1 | Ranks that share a copy of the parameters; -1: all that are left.
data_parallel_replicate_degree | int -1..1048576 | 1 | Copies of the parameters.
mixed_precision | one of FULL, DEFAULT, PURE or map mixed_precision | DEFAULT | Types of what is gathered and summed.
cpu_offload | bool | false | Shards, gradients and the optimizer in host memory.
backward_prefetch | one of BACKWARD_PRE, BACKWARD_POST, none | BACKWARD_POST | When the next block of backward is \
gathered.
backward_prefetch_limit | int 1..1048576 | 1 | Blocks.
forward_prefetch | bool | false | Gather the next blocks while this one runs.
forward_prefetch_limit | int 1..1048576 | 1 | Blocks.
limit_all_gathers | bool | true | false: all blocks may be whole at once.
overlap_communication | bool | true | false: everything one after the other.
sync_module_states | bool | true | Rank 0's first weights for all.
auto_wrap | bool or texts | true | Which blocks are units: all, those that the model marks, or those and the layers \
of these types and names.
min_num_params | int 0.. | 0 | Blocks with fewer parameters are not units of their own.
verbose | bool | false | Log the plan before the first step.
activation_checkpointing | bool or int 1.. or texts | false | Which blocks run again in backward.
activation_checkpointing_target | texts | [] | Types and names of what activation_checkpointing chooses from, instead \
of the blocks.
activation_checkpointing_reentrant | bool | true | Changes nothing: there is one implementation.
activation_cpu_offload | bool | false | What blocks save for backward waits in host memory.

[map tensor_parallel] Matrix products shared by ranks.
tensor_parallel_degree | int 1..1048576 | 1 | Neighbouring ranks that share them.
layer_plan | map | - | ColwiseParallel, RowwiseParallel, GatherColwiseParallel or SequenceParallel, by types or names \
of layers.

[map parallelism] Parallelism.
fsdp | map fsdp | - | Sharding.
tp | map tensor_parallel | - | Tensor parallelism.

[map profiler_schedule] Which batches of an epoch are recorded.
skip_first | int 0..1099511627776 | 0 | Batches before the first cycle.
wait | int 0..1048576 | 0 | Batches of a cycle that are left out,
warmup | int 0..1048576 | 1 | recorded and thrown away,
active | int 1..1048576 | 4 | and recorded.
repeat | int 0..1048576 | 1 | Cycles; 0: until the epoch ends.

[map trace_handler] Where traces go.
folder | text | "{run_folder}/traces" | The folder.
filename | text | ep{epoch}-ba{batch}-rank{rank}.json | A file's name.
merged_trace_filename | text | merged_trace.json | The merged file.
num_traces_to_keep | int -1..1048576 | -1 | -1: all.

[map tensorboard_trace_handler] Traces for TensorBoard's profiler plugin.
folder | text 1.. | "{run_folder}/tensorboard_traces" | The folder.

[map profiler] The profiler.
schedule | map profiler_schedule | {} | Which batches are recorded.
json_trace_handler | map trace_handler | {} | Where traces go.
tensorboard_trace_handler | map tensorboard_trace_handler | - | Traces for TensorBoard's profiler plugin, too.
torch_prof_record_shapes | bool | false | Shapes of operators.
torch_prof_profile_memory | bool | true | Memory.
torch_prof_with_flops | bool | true | Floating-point operations.
torch_prof_with_stack | one of false | false | Python's stacks: there are none.
torch_prof_memory_filename | text | ep{epoch}-ba{batch}-rank{rank}.memory.html | The memory file; empty: none.
roofline | bool | false | Each layer's share of the machine's measured peak; needs device: cpu.
sys_prof_cpu | bool | true | The machine's CPUs.
sys_prof_memory | bool | false | Its memory.
sys_prof_disk | bool | false | Its disks.
sys_prof_net | bool | false | Its network.
sys_prof_stats_thread_interval_seconds | number 0.001..3600 | 0.5 | Seconds between two looks.
)";

}  // namespace composer

// The top of a job's file.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kJobKeys[] = R"(
[map startup_limits] Seconds that a worker may make no progress in a phase of its start-up; 0: any time.
attach | number 0.. | 60 | Until it has reached its launcher.
group | number 0.. | 300 | Until the group of ranks is formed.
build | number 0.. | 600 | Until the job is built.
load | number 0.. | 900 | Until a checkpoint is loaded.
first_step | number 0.. | 1200 | Until the first step is done.

[map save_top_k] Which checkpoints stay, besides the newest.
monitor | text 1.. | required | A metric: metrics/eval/NAME, metrics/train/NAME or loss/train/total.
k | int 1..1048576 | 1 | How many.
mode | one of auto, min, max | auto | What is better; auto: by the metric's name.

[map precision_config] How linear layers are computed in 8 bits, with TransformerEngine's names.
fp8_format | one of HYBRID, E4M3 | HYBRID | Of gradients: e5m2 or e4m3; all else is e4m3.
scaling | one of delayed, current | delayed | Tensors are scaled by the steps before, or by themselves.
amax_history_len | int 1..65536 | 16 | Steps that delayed scaling looks back.
amax_compute_algo | one of max, most_recent | max | What it takes of them.
margin | int 0..16 | 0 | Scales are 2^margin times smaller.
exclude | texts | [] | Types and names of linear layers that stay in bfloat16.

[map job] A training job. Names are those of Composer's Trainer where it has them.
run_name | text 1.. | (the file's name, or COMPOSER_RUN_NAME, RUN_NAME) | The name of the run: 1 to 200 bytes without \
`/` and control characters.
run_folder | text 1.. | runs/{run_name} | Where everything of the run goes.
max_restarts | int 0..2147483647 | 3 | Failures in a row without progress before giving up; `--max-restarts` wins.
startup_limits | map startup_limits | {} | How long each phase of a worker's start-up may take.
nproc | int 1..4096 | (1) | Ranks of this node; `-n` wins.
plugins | texts | [] | Shared libraries whose names may be used in the rest of the file; a relative path starts at \
the file's folder.
variables | map | - | Values for `${variables.x}`; nothing reads them otherwise.
model | named model | required | What is trained.
train_dataloader | named dataset with train_loader | required | Where the samples come from, and how they are loaded.
train_dataloader_label | text | train | The training data's name in messages.
global_train_batch_size | int 1.. | - | Samples of a step over all ranks.
device_train_batch_size | int 1.. | - | Samples of a step on one rank.
train_subset_num_batches | int 1.. or one of -1 | -1 | End each epoch after so many batches; -1: after all.
eval_dataloader | named list dataset with eval_loader | [] | Evaluations.
eval_interval | time >=0 | 1ep | How often they run; 0: never.
eval_first | bool | false | Evaluate once before the first step, too.
eval_subset_num_batches | int -1.. | -1 | End each evaluation after so many batches; -1: after all.
icl_tasks | list map icl_task | [] | In-context evaluations, at eval_interval.
icl_seq_len | int 2..16777216 | 1024 | The most tokens of their questions.
eval_gauntlet | map eval_gauntlet | - | Averages of in-context tasks by category.
icl_subset_num_batches | int -1.. | -1 | End each of them after so many batches; -1: after all.
tokenizer | named tokenizer | - | Turns texts into tokens, for generation and plugins.
optimizers | named optimizer | {name: decoupled_sgdw} | The optimizer.
schedulers | named list scheduler | [] | Schedules of the learning rate; their factors multiply.
scale_schedule_ratio | number 1e-6.. | 1 | Scales the times of schedules, and max_duration.
step_schedulers_every_batch | bool | (true, but false with one of torch's schedulers) | Schedules advance every \
batch, or every epoch.
algorithms | names algorithm | {} | Algorithms, in the order in which they run.
max_duration | time >0 iter, ep, ba, sp, tok, sec | required | How long to train.
iteration_length | time >0 ep, tok | - | Epochs or tokens of an iteration.
device_train_microbatch_size | int 1..68719476736 or one of auto | (the whole rank batch) | Samples of one forward \
and backward pass.
accumulate_train_batch_on_tokens | bool | false | Weigh microbatches by their loss-generating tokens.
keep_in_fp32 | texts | [] | Types and names of layers that compute in float32 with any precision.
precision | one of fp32, amp_bf16, amp_fp16, amp_fp8 | fp32; amp_bf16 when device is gpu | The type of matrix products.
precision_config | map precision_config | - | The recipe of amp_fp8.
ddp_sync_strategy | one of single_auto_sync, multi_auto_sync, forced_sync | single_auto_sync | Which backward pass of \
a step sums gradients over ranks.
ddp_config | map ddp | {} | How gradients are summed.
parallelism_config | map parallelism | {} | Sharding and tensor parallelism.
fsdp_config | map fsdp | - | Composer's older key for parallelism_config.fsdp.
seed | int 0.. or one of random | 0 | Of weights, sample order and everything random; random: drawn once for the run.
deterministic_mode | bool | false | An operation without a deterministic implementation is an error.
composer_compat | bool | false | As Composer where it is wrong.
on_nan | one of stop, skip, continue | stop; continue when composer_compat is true | What a step does whose loss or \
gradients are NaN or infinite.
train_metrics_interval | int 0.. | 1 | Batches between train metrics; 0: never.
save_folder | text 1.. | ({run_folder}/checkpoints) | Where checkpoints go: a path or a URL.
save_filename | text 1.. | ep{epoch}-ba{batch} | Names of checkpoints; another name is a file that leads to one.
save_metrics | bool | false | Save what metrics have summed up, so that a run that resumes knows the last evaluation.
save_top_k | map save_top_k | - | Keep only the checkpoints at which a metric was best, and the newest.
save_latest_filename | text | latest | A file that names the newest checkpoint; `none`: it is not written.
save_interval | time >=0 | 1ep | How often to save; 0: only at the end.
save_num_checkpoints_to_keep | int 1..1048576 or one of -1 | -1 | -1: all.
save_overwrite | bool | false | Replace checkpoints of the same step that another run wrote.
save_weights_only | bool | false | Save the model's tensors only; needs autoresume: false.
save_async | bool | true | Train on while a checkpoint is written.
save_memory_interval | time >0 | - | How often to keep a snapshot in the nodes' memory.
save_overlap | one of wait, skip | wait | A save that is due while another is being written waits or is skipped.
save_ignore_keys | texts | [] | Patterns of what is not saved; `!pattern` takes back.
autoresume | bool | true | Resume from the newest valid checkpoint of save_folder.
resume_changes | texts | [] | Settings that may have changed since the checkpoint although its state depends on them; \
`allow`: all.
load_path | text | - | Where the first weights come from when there is nothing to resume.
load_weights_only | bool | false | Load only the model's tensors.
load_strict_model_weights | bool | true | Missing or unexpected tensors of the model are errors.
load_ignore_keys | texts | [] | Patterns of what is not loaded; `!pattern` takes back.
load_exclude_algorithms | texts | [] | Patterns of algorithms whose state is not loaded.
callbacks | names callback | {} | Callbacks.
loggers | names logger | {} | Loggers.
progress_bar | bool | true | The progress bar of rank 0.
log_to_console | bool | false | Metrics as lines of text.
console_stream | one of stderr, stdout | stderr | Where these, and the progress bar, go.
console_log_interval | interval | 1ba | Batches or epochs between these lines.
log_traces | bool | false | Log for each algorithm at each event whether it ran.
auto_log_hparams | bool | false | Log the keys of this file as hyperparameters.
metrics_file | bool | true | Write metrics.jsonl and tables.jsonl.
profiler | map profiler | - | The profiler.
determinism | one of none, elastic | none | elastic: the same weights, bit for bit, on any number of ranks.
virtual_shards | int 1..4096 | (8, or ranks times a power of two) | With determinism: elastic: parts of the global \
batch.
dist_timeout | number 1.. | 300 | Seconds, of connecting and of each collective.
collectives | one of auto, gloo, shared_memory | auto | Of CPU ranks.
debug_collectives | bool | false | Over Gloo and NCCL, ranks compare each collective before it begins.
device | one of cpu, gpu | cpu | What the model runs on.
compile_config | map compile | - | Arguments of torch.compile; checked, without effect.
kernels | one of auto, off | auto | On a GPU, kernels of our own where they pay.
attention_backend | one of auto, cudnn, flash, efficient, math | auto | \
On a GPU, the kernel of attention; those behind it in this order take what it does not.
cuda_graphs | bool | false | On a GPU, steps of one shape are captured once and replayed as a graph.
allow_tf32 | bool | true | On a GPU, float32 products may round their factors to TF32.
rule at most one of global_train_batch_size, device_train_batch_size
rule at most one of parallelism_config, fsdp_config
)";

}  // namespace composer

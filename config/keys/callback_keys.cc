// Callbacks.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kCallbackKeys[] = R"(
[callback activation_monitor] Statistics of activations.
interval | interval | 25ba | How often.
ignore_module_types | texts | [] | Types of modules that are left out.
only_log_wandb | bool | true | Composer's; all loggers get them.

[callback checkpoint_saver] Checkpoints besides the job's own.
folder | text 1.. | required | Where they go.
filename | text 1.. | ep{epoch}-ba{batch} | Their names.
latest_filename | text | latest | A file that names the newest.
save_interval | time >=0 | 1ep | How often to save.
num_checkpoints_to_keep | int 1..1048576 or one of -1 | -1 | -1: all.
overwrite | bool | false | Replace checkpoints of the same step that another run wrote.
weights_only | bool | false | The model's tensors only.
async | bool | true | Train on while a checkpoint is written.
overlap | one of wait, skip | wait | A save that is due while another is being written.
ignore_keys | texts | [] | Patterns of what is not saved.
save_metrics | bool | false | What metrics have summed up, too.
top_k | map save_top_k | - | Keep only the checkpoints at which a metric was best, and the newest.

[callback early_stopper] Stops when a metric no longer improves.
monitor | text 1.. | required | The metric.
dataloader_label | text | - | Whose.
comp | one of auto, less, lt, greater, gt | auto | What is better; auto: by the metric's name.
min_delta | number 0.. | 0 | Smallest improvement.
patience | time >=0 | 1ep | How long to wait for one.

[callback eval_output_logging] A table of what each evaluation's samples were, and what the model made of them.
num_samples | int 1..1048576 | 100 | Of each evaluation, the first ones.
log_tokens | bool | false | The numbers of the input's tokens, too.

[callback export_for_inference] Writes the model at the end.
save_path | text | ({run_folder}/export) | The folder.
save_format | one of safetensors, torchscript, onnx | safetensors | The weights, or the model as a program.

[callback fail_at] Fails, to rehearse it.
rank | int 0.. | 0 | Which rank.
batch | int 0.. | 1 | At which batch.
how | one of kill, abort, exit, throw, hang | kill | How.
when | one of batch_end, save, all_reduce, all_gather, reduce_scatter, broadcast | batch_end | When.
nth | int 1..1048576 | 1 | At which of the collectives.
every_generation | bool | false | Also after restarts.

[callback free_outputs] Frees the model's outputs after the loss.

[callback generate] Generates texts now and then.
prompts | texts | required | Beginnings of the texts.
interval | time >=0 | required | How often.
batch_size | int 1..1048576 | - | Prompts of a forward pass on a rank; none: all.
max_new_tokens | int 1..1048576 | 20 | Tokens that are added at most.
eos_token_id | texts | [] | Tokens that end a text.
do_sample | bool | false | Draw tokens instead of taking the likeliest.
temperature | number | 1 | Logits are divided by it.
top_k | int 0.. | 50 | Draw among so many of the likeliest; 0: all.
top_p | number | 1 | And of these, the likeliest until their probabilities make this much.
seed | int 0.. | (the job's) | Of the draws.
use_cache | bool | true | Keep keys and values of earlier tokens.
summon_full_params | bool | false | Gather the whole model first.
repetition_penalty | number | 1 | Above 1: tokens that the text has become less likely.
no_repeat_ngram_size | int 0.. | 0 | So many tokens in a row occur once; 0: no limit.
min_new_tokens | int 0.. | 0 | Before so many no token ends a text.
stop_strings | texts | [] | A text ends when it has one of these.
num_beams | int 1.. | 1 | Beam search among so many texts; 1: none.
length_penalty | number | 1 | Of beams: above 0 favours longer texts.
early_stopping | one of false, true, never | false | When beams end.
chat_template | text | - | Prompts are what a user says: a template, or a folder that has one.
system | text | - | The system message before them.

[callback image_visualizer] Logs images.
interval | interval | 100ba | How often.
mode | one of input, segmentation | input | What.
num_images | int 1..1073741824 | 8 | How many.
channels_last | bool | false | The layout of images.
input_key | text 1.. | inputs | Which tensor of a batch has them; 0 is inputs, 1 targets.
target_key | text 1.. | targets | Which tensor has the ground truth.

[callback load_checkpoint] Loads a checkpoint at an event.
load_path | text 1.. | required | Its place.
load_weights_only | bool | false | The model's tensors only.
strict_model_weights | bool | true | Missing or unexpected tensors are errors.
ignore_keys | texts | [] | Patterns of what is not loaded.
exclude_algorithms | texts | [] | Patterns of algorithms whose state is not loaded.
event | text | before_load | The event.

[callback log_diffusion_images] Makes pictures with a diffusion model after each evaluation and at the end.
class_labels | ints 0..65535 | [] | A class for each picture.
conditions | text | - | A safetensors file with encoder_hidden_states [N, T, D], class_labels [N] or both.
prompts | texts | [] | A text for each picture, for models with a text encoder; needs the job's `tokenizer`.
negative_prompt | text | - | What guidance leads away from; without it: zeros, as texts that were left out in training.
num_images | int 1..4096 | 8 | How many, where neither says it.
sampler | one of ddim, ddpm | ddim | How.
num_inference_steps | int 1..1000000 | 50 | Passes of the model.
eta | number 0..1 | 0 | Noise that ddim adds on the way.
guidance_scale | number 0.. | 1 | Classifier-free guidance; 1: without.
seed | int 0.. | 0 | Of all noise.

[callback lr_monitor] Logs the learning rate.

[callback memory_monitor] Logs memory.
interval | int 1..1073741824 | 10 | Batches.
memory_keys | map | - | A GPU's numbers to log: torch's name, and ours.
dist_aggregate_batch_interval | int 1..1073741824 | - | Batches; mean, least and greatest over all ranks, too.

[callback memory_snapshot] Records all allocations of some batches.
skip_batches | int 0.. | 1 | Batches before it begins.
interval | interval | 3ba | How long.
max_entries | int 1..100000000 | 100000 | The newest are kept.
folder | text | ({run_folder}/traces) | The folder.
filename | text | rank{rank}.{batch}.memory_snapshot | A file's name.

[callback mlperf] A result file for MLPerf's checker.
root_folder | text | ({run_folder}/mlperf) | The folder.
index | int 0.. | 0 | The run's number.
benchmark | text | resnet | The benchmark.
target | number | 0.759 | The value to reach.
metric_name | text | MulticlassAccuracy | The metric.
metric_label | text | eval | Whose.
comp | one of auto, less, lt, greater, gt | auto | What is better.
division | one of open, closed | open | The division.
submitter | text | composer | The submitter.
system_name | text | - | The system.
status | one of onprem, cloud, preview | onprem | Its status.
cache_clear_cmd | text | - | A command that clears caches.
exit_at_target | bool | false | Stop when the target is reached.
host_processors_per_node | text | - | Processors.
hyperparameters | map | - | Further lines.

[callback nan_monitor] Stops when the loss is not a number.

[callback oom_observer] Says what filled the memory.
folder | text | ({run_folder}/traces) | The folder.
filename | text | rank{rank}_oom | A file's name.
record_history | bool | false | Record allocations.
max_entries | int 1..100000000 | 100000 | The newest are kept.

[callback optimizer_monitor] Norms of gradients and of the optimizer's state.
batch_log_interval | int 1..1073741824 | 10 | Batches.
log_optimizer_metrics | bool | true | The optimizer's, too.

[callback runtime_estimator] The time that is left.
skip_batches | int 0..1048576 | 1 | Batches before it begins.
time_unit | one of seconds, minutes, hours, days | hours | Of times.

[callback sample_recorder] Writes the ids of every batch.

[callback speed_monitor] Throughput.
window_size | int 1..1048576 | 100 | Batches.
gpu_flops_available | number 0.. | 0 | A device's peak; 0: that of a known GPU.
time_unit | one of seconds, minutes, hours, days | hours | Of times.

[callback system_metrics_monitor] The machine's load.
log_all_data | bool | false | Of all ranks.
seconds | number 0..86400 | 1 | At most once in so many; 0: every batch.
dist_aggregate_batch_interval | int 1..1073741824 | - | Every so many batches the GPUs of all ranks, each rank its \
own, not those of rank 0's node.

[callback threshold_stopper] Stops when a metric reaches a value.
monitor | text 1.. | required | The metric.
dataloader_label | text | - | Whose.
threshold | number | required | The value.
comp | one of auto, less, lt, greater, gt | auto | What is better.
stop_on_batch | bool | false | At the end of a batch.

[callback throttle] Sleeps after every batch.
seconds | number 0..3600 | 0 | How long.
)";

}  // namespace composer

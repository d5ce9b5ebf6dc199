// Loggers.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kLoggerKeys[] = R"(
[map tracker] What all trackers have.
logging_buffer_seconds | int 1..3600 | 2 | How often metrics.jsonl is looked at.
flush_seconds | int 0..86400 | 60 | How long the end of the run waits.
preempted_flush_seconds | int 0..86400 | 15 | And after a preemption.
rank_zero_only | one of true | true | Only rank 0 has the metrics of all ranks.

[logger cometml] An offline experiment of Comet, for `comet upload`.
workspace | text | (COMET_WORKSPACE) | The workspace.
project_name | text | (COMET_PROJECT_NAME, else composer) | The project.
name | text | (run_name) | The experiment's name there.
tags | texts | [] | Tags.
log_artifacts | bool | false | Files of callbacks, config.yaml and the newest checkpoint, too.
include tracker

[logger file_logger] Metrics as lines of text in a file.
filename | text 1.. | logs/logs-rank{rank}.txt | The file.
flush_interval | int 1..1073741824 | 100 | Batches.
log_traces | bool | true | Traces of algorithms, too.
capture_stdout | bool | true | Composer's; the launcher keeps the streams of every rank in logs/ anyway.
capture_stderr | bool | true | The same.

[logger in_memory] Metrics in the memory of the process, for a C++ program that builds the job itself.

[logger mlflow] Sends metrics and hyperparameters to an MLflow server.
tracking_uri | text | (MLFLOW_TRACKING_URI) | The server: http://HOST:PORT.
experiment_name | text | (MLFLOW_EXPERIMENT_NAME, else composer) | The experiment; made when it is not there.
run_name | text | (run_name) | The run's name there.
tags | texts | [] | NAME=VALUE each.
log_artifacts | bool | false | Files of callbacks, config.yaml and the newest checkpoint, too.
registered_model | text | "" | Registers the newest checkpoint as a version of this model at the end; needs \
log_artifacts.
rewound_steps | one of replace, keep | replace | Steps that a resume does again: a new run there, or the first values.
include tracker

[logger remote_uploader_downloader] Copies the run's files to a bucket.
bucket_uri | text 1.. | required | The place.
file_path_format_string | text 1.. | "{run_name}/{remote_file_name}" | A file's name there.
upload_staging_folder | text | ({run_folder}/.uploads) | Where copies wait.
files | texts | [metrics.jsonl, tables.jsonl, config.yaml, logs/*, tensorboard/*] | Patterns of the run folder's files.
interval | int 1..1073741824 | 1000 | Batches.
num_concurrent_uploads | int 1..64 | 1 | Uploads at once.
num_attempts | int 1..100 | 3 | Attempts of each.
flush_seconds | int 0..86400 | 300 | How long the end of the run waits.
preempted_flush_seconds | int 0..86400 | 20 | And after a preemption.
use_procs | bool | true | Composer's; changes nothing.

[logger slack] Messages to a Slack channel.
include_keys | texts | [] | Patterns of metrics.
log_interval | interval | 1ba | How often they are posted.
max_logs_per_message | int 1..50 | 50 | Values in a message.
events | texts | [start, restart, end] | Which events of the run are posted.
include tracker

[logger tensorboard] TensorBoard's event files.
log_dir | text | ({run_folder}/tensorboard) | The folder.
flush_interval | int 1..1073741824 | 100 | Batches.
rank_zero_only | one of true | true | Only rank 0 has the metrics of all ranks.

[logger wandb] An offline run of Weights & Biases, for `wandb sync`.
project | text | (WANDB_PROJECT, else composer) | The project.
entity | text | (WANDB_ENTITY) | The user or team.
group | text | "" | The group of runs.
name | text | (run_name) | The run's name there.
tags | texts | [] | Tags.
log_artifacts | bool | false | Files of callbacks, config.yaml and the newest checkpoint, too.
include tracker
)";

}  // namespace composer

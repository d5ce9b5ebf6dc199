// Loggers.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kLoggerKeys[] = R"(
[logger file_logger] Metrics as lines of text in a file.
filename | text 1.. | logs/logs-rank{rank}.txt | The file.
flush_interval | int 1..1073741824 | 100 | Batches.
log_traces | bool | true | Traces of algorithms, too.
capture_stdout | one of false | false | Refused: the launcher keeps the streams of every rank.
capture_stderr | one of false | false | Refused: the launcher keeps the streams of every rank.

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

[logger tensorboard] TensorBoard's event files.
log_dir | text | ({run_folder}/tensorboard) | The folder.
flush_interval | int 1..1073741824 | 100 | Batches.
rank_zero_only | one of true | true | Only rank 0 has the metrics of all ranks.
)";

}  // namespace composer

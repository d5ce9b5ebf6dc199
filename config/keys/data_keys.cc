// Data sets and their loading.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kDataKeys[] = R"(
[map prefetch] torch's DataLoader arguments.
num_workers | int 0..256 | 0 | Threads that load ahead; 0: the training thread loads.
prefetch_factor | int 1..1024 | 2 | Batches that each of them is ahead.
timeout | number 0.. | 0 | Seconds that a batch may take; 0: any time. Needs num_workers.
pin_memory | bool | false; true when device is gpu | Copy batches through pinned memory; needs device: gpu.

[map train_loader] Keys of train_dataloader beside those of its data set.
batch_size | int 1.. | - | Samples of a step on one rank.
shuffle | bool | true | A new order each epoch.
drop_last | bool | false | Leave out a short last batch.
include prefetch

[map eval_loader] Keys of an evaluation beside those of its data set.
label | text 1.. | eval | Its name in metrics: metrics/<label>/….
batch_size | int 1.. | 256 | Samples of a batch on one rank.
subset_num_batches | int -1.. | (eval_subset_num_batches) | End after so many batches; -1: after all.
eval_interval | time >=0 | (the job's eval_interval) | How often; 0: never.
metric_names | texts | [] | Regular expressions of the model's evaluation metrics; none: all.
device_eval_microbatch_size | int 1..68719476736 | (the whole batch) | Samples of one forward pass.
include prefetch

[dataset fashion_mnist] Fashion-MNIST, out of its IDX files.
path | text 1.. | /usr/share/datasets/fashion-mnist | The folder of the files.
split | one of train, test, eval | train | Which part; eval is test.

[dataset gaussian_classification] Points around one centre per class, made from a seed.
size | int 1.. | 4096 | Samples.
features | int 1.. | 64 | Numbers of a sample.
classes | int 1.. | 10 | Classes.
separation | number 0.. | 1 | Distance of the centres.
seed | int 0.. | 0 | Of the centres.
sample_seed | int 0.. | 0 | Of the samples.

[dataset text_bytes] The bytes of a text file, as tokens.
path | text 1.. | required | The file.
max_seq_len | int 1..1048576 | 128 | Tokens of a sample.
eval_fraction | number 0..0.99 | 0.1 | Share of the file, at its end, for split: eval.
split | one of train, test, eval | train | Which part; test is eval.
)";

}  // namespace composer

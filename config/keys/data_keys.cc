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

[map pack] Rows of one length out of documents.
max_seq_len | int 1..16777216 | 2048 | Tokens of a row.
method | one of concat, first_fit | concat | Documents follow each other and are cut; or whole documents, with padding.
separator | one of eos, none | eos | What stands between two documents: the tokenizer's end-of-sequence token, or \
nothing.
attn_uses_sequence_id | bool | false | Tokens see only those of their own document; for decoders.

[map length_buckets] Samples of like length come together.
window | int 1..16777216 | 4096 | Samples that are sorted by length together.
size | int 1..16777216 | 32 | Samples that stay together, such as those of a batch.

[map prepare] What is made of the samples of sources (csv, finetuning, image_folder, jsonl, mix, …), and of plugins'.
transforms | names transform | {} | What is done to each sample, in this order.
pack | map pack | - | For language models: rows of one length, read in order.
length_buckets | map length_buckets | - | Batches of samples of like length, for collate: pad.
collate | named collator | {name: stack} | How samples become a batch; those of finetuning are padded by default.

[map train_loader] Keys of train_dataloader beside those of its data set.
batch_size | int 1.. | - | Samples of a step on one rank.
shuffle | bool | true | A new order each epoch.
drop_last | bool | false | Leave out a short last batch.
order | named order | - | The order of an epoch's samples, in place of shuffle.
predownload | int 0.. | 0 | Samples ahead of a batch that are fetched.
include prefetch
include prepare

[map eval_loader] Keys of an evaluation beside those of its data set.
label | text 1.. | eval | Its name in metrics: metrics/<label>/….
batch_size | int 1.. | 256 | Samples of a batch on one rank.
subset_num_batches | int -1.. | (eval_subset_num_batches) | End after so many batches; -1: after all.
eval_interval | time >=0 | (the job's eval_interval) | How often; 0: never.
metric_names | texts | [] | Regular expressions of the model's evaluation metrics; none: all.
device_eval_microbatch_size | int 1..68719476736 or one of auto | (the whole batch) | Samples of one forward pass.
include prefetch
include prepare

[map icl_task] A task of in-context evaluation, as llm-foundry has it.
label | text 1.. | required | Its name in metrics: metrics/<label>/<n>-shot/….
dataset_uri | texts | required | Files of JSON lines, folders or globs; .gz is decompressed.
icl_task_type | one of language_modeling, multiple_choice, schema, generation_task_with_answers | required | context \
and continuation; query, choices and gold; context_options, continuation and gold; or context, answer, aliases and \
chain_of_thought.
num_fewshot | ints 0..1024 | [0] | So many other examples before each; one evaluation for each number.
batch_size | int 1.. | 8 | Texts of a batch on one rank; a question has one for each choice.
max_seq_len | int 2..16777216 | (icl_seq_len) | The most tokens of a text; the beginning of longer ones is cut.
prompt_string | text | "" | What stands before everything.
example_delimiter | text | "\n" | What stands before each example but the first.
continuation_delimiter | text | " " | What stands between an example and its answer.
prelimiter | text | "" | What stands before each example.
question_prelimiter | text | "" | The same, by its older name.
fewshot_random_seed | int 0..4294967295 | 1234 | Of the choice of examples; the choice is llm-foundry's.
strip_dataset | bool | true | Remove spaces around texts.
early_stopping_criteria | texts | [] | generation_task_with_answers: texts at which an answer ends.
generation_kwargs | map generation_kwargs | - | generation_task_with_answers: how the model writes, without this the \
likeliest tokens.
do_normalization | bool | true | generation_task_with_answers: compare without case, punctuation and articles.
cot_delimiter | text | "" | generation_task_with_answers: what stands between a chain of thought and the answer.
metric_names | texts | [] | Regular expressions of the task's metrics; none: all.
has_categories | bool | false | An evaluation for each `category` of the lines: metrics/<label>/<n>-shot/<category>/….

[map generation_kwargs] How texts are made, with the names of Hugging Face's GenerationConfig.
eos_token_id | texts | (the tokenizer's) | Tokens that end a text.
do_sample | bool | false | Draw tokens instead of taking the likeliest.
temperature | number | 1 | Logits are divided by it.
top_k | int 0.. | 50 | Draw among so many of the likeliest; 0: all.
top_p | number | 1 | And of these, the likeliest until their probabilities make this much.
seed | int 0.. | 0 | Of the draws.
use_cache | bool | true | Keep keys and values of earlier tokens.
repetition_penalty | number | 1 | Above 1: tokens that the text has become less likely.
no_repeat_ngram_size | int 0.. | 0 | So many tokens in a row occur once; 0: no limit.
min_new_tokens | int 0.. | 0 | Before so many no token ends a text.
num_beams | int 1.. | 1 | Beam search among so many texts; 1: none.
length_penalty | number | 1 | Of beams: above 0 favours longer texts.
early_stopping | one of false, true, never | false | When beams end.

[map eval_gauntlet] Averages of in-context tasks by category, as llm-foundry has them.
weighting | one of EQUAL, SAMPLE_SZ, LOG_SAMPLE_SZ | EQUAL | Of a category's tasks: alike, by their questions, or by \
the logarithm of these.
subtract_random_baseline | bool | true | Subtract what guessing reaches.
rescale_accuracy | bool | true | Divide by 1 - random_baseline, so that 1 is the most.
categories | list map gauntlet_category | required | The categories.
averages | map | - | Lists of categories, by the name of the average; without it default_average, of all.

[map gauntlet_category] A category of tasks.
name | text 1.. | required | Its name in metrics: icl/metrics/eval_gauntlet/<name>.
benchmarks | list map gauntlet_benchmark | required | Its tasks.

[map gauntlet_benchmark] A task of a category.
name | text 1.. | required | The label of one of icl_tasks.
num_fewshot | int 0..1024 | required | Which of its evaluations.
random_baseline | number 0..0.999999 | 0 | What guessing reaches.

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

[dataset tokens] Tokens in files, mapped into memory: raw integers, NumPy's .npy, or Megatron's .bin with its .idx.
path | texts | required | Files, folders or globs.
max_seq_len | int 1..16777216 | 1024 | Tokens of a sample.
dtype | one of uint8, uint16, int32, uint32, int64 | uint16 | Of raw files; .npy and .idx files say their own.
vocab_size | int 0.. | 0 | Every token must be below; 0: not checked.

[map fetch_keys] Keys of data sets whose files may be in stores.
local | text | "" | The folder for files that are fetched from a store; every path is then a URL.
cache_limit | int 1.. | - | Bytes of fetched files on this node.
download_retry | int 0..1000 | 4 | Further tries to fetch a file, after growing pauses.
download_timeout | number 0.001.. | 600 | Seconds that one fetch of a file may take.

[dataset finetuning] Prompts and responses, or chats, in JSON lines or tables; only responses are learned.
path | texts | required | Files, folders or globs; .gz is decompressed. With `local`, URLs of tables.
format | one of jsonl, parquet, arrow | (by the ending of the first path) | What the files are.
include fetch_keys
max_seq_len | int 1..16777216 | 2048 | Tokens of the longest sample; prompts are cut at their beginning.
prompt_key | text 1.. | prompt | The text before the response.
response_key | text 1.. | response | The text that is learned.
messages_key | text 1.. | messages | A chat: a list of {role, content}; what the assistant says is learned.
turn_begin | text | (ChatML's) | What stands before a message; {role} is its role.
turn_end | text | (ChatML's) | What stands behind it, and is learned with it.
chat_template | text | - | In place of both: a file with a template of Jinja, or a tokenizer's folder that has one.

[map mixed_source] Keys of a mixed source beside those of its data set.
transforms | names transform | {} | What is done to its samples before those of the mix.

[map mixed] One of the sources of a mix.
weight | number 0.. | 1 | Its share, beside the others' weights.
source | named dataset with mixed_source | required | A data set that is read sample by sample.

[map mix_change] Other weights from a sample of the run on.
at | int 1.. | required | The number of samples before.
weights | numbers | required | One for each source.

[dataset mix] Several sources in exact proportions, each in its own order.
mix | list map mixed | required | The sources.
epoch_size | int 1.. | (all samples) | Samples of an epoch.
changes | list map mix_change | [] | Other weights later in the run.

[dataset jsonl] The lines of JSON files: a sample has the keys of its line.
path | texts | required | Files, folders or globs; .gz is decompressed.

[map table_keys] Keys of parquet and arrow.
path | texts | required | Files, globs, or folders, such as those of Hugging Face's datasets; with `local`, URLs.
columns | texts | (all) | The columns that are read.
features | texts | [] | Columns of numbers that together are the inputs.
target | text | "" | A column of whole numbers: the targets.
shuffle_bytes | int 1..1125899906842624 | 536870912 | Decoded rows that are shuffled together; a rank holds about \
twice as many.

[dataset parquet] The rows of Parquet files; a sample has the columns as keys.
include table_keys
include fetch_keys

[dataset arrow] The rows of Arrow's IPC files and streams; uncompressed ones are mapped into memory.
include table_keys
include fetch_keys

[dataset csv] The records of CSV files, whose first line names the columns.
path | texts | required | Files, folders or globs; .gz is decompressed.
separator | text 1.. | "," | One character.
features | texts | [] | Columns of numbers that together are the inputs.
target | text | "" | A column of whole numbers: the targets.

[map stream] One of several streams of shards.
local | text 1.. | (the loader's) | The folder of the shards, or for those that are fetched.
remote | text | (the loader's) | A URL or another folder that they are fetched from.
split | text | (the loader's) | A folder below both.
proportion | number 0.. | - | Its share of an epoch, beside the other streams'.
repeat | number 0.. | - | How often an epoch has its samples.
choose | int 0.. | - | How many of its samples an epoch has.

[dataset streaming] Shards in mosaicml-streaming's MDS format, in that package's order.
local | text | "" | The folder of the shards, or for those that are fetched.
remote | text | "" | A URL or another folder that they are fetched from.
split | text | "" | A folder below both.
streams | list map stream | [] | Several streams, each with keys of its own.
shuffle_algo | one of naive, py1s, py1br, py1e, py2s | py1e | How samples are shuffled.
shuffle_seed | int 0.. | 9176 | Of the order.
num_canonical_nodes | int 1..1048576 | 1 | Parts that the order interleaves.
shuffle_block_size | int 1.. | (4,000,000 / num_canonical_nodes, at least 262,144) | Samples of a block of py1br and \
py1e.
partition_algo | one of relaxed, orig | relaxed | How parts are interleaved.
batching_method | one of random, stratified, per_stream, device_per_stream | random | What a batch has of each stream.
sampling_method | one of balanced, fixed | balanced | Other samples in each epoch, or the same.
sampling_granularity | int 1.. | 1 | Samples of a shard that are drawn together.
epoch_size | int 1.. | (all) | Samples of an epoch.
validate_hash | text | "" | A hash of the index that shards are checked with.
cache_limit | int 1.. | - | Bytes of fetched shards on this node.
range_bytes | int 4096.. | - | Fetch parts of shards, of about so many bytes; else whole ones.
download_retry | int 0..1000 | 4 | Further tries to fetch a shard, after growing pauses.
download_timeout | number 0.001.. | 600 | Seconds that one fetch of a shard may take.

[dataset image_folder] A folder with a folder of images (JPEG, PNG) for each class, as torchvision has it.
path | text 1.. | required | The folder.
classes | text | "" | A file with a class in each line; else the folders' names, sorted, are the classes.

[dataset webdataset] Tar files; files of one name up to the first dot are a sample.
path | texts | required | Files, folders, globs, and {000..012} for several; with `local`, also URLs.
include fetch_keys
target | text | cls | The ending of the files that hold the class, a whole number.

[dataset mnist] Images in MNIST's binary files, as bytes.
path | text 1.. | required | The folder of the four files.
split | one of train, test, eval | train | Which part; eval is test.

[dataset cifar10] CIFAR-10's binary files, as bytes.
path | text 1.. | required | The folder of data_batch_1.bin, ….
split | one of train, test, eval | train | Which part; eval is test.

[dataset tensors] Rows of tensors in files, mapped into memory: safetensors, or a .npy file for each key.
path | texts | required | Files, folders or globs; .safetensors follow each other, x.npy is the key x.

[dataset text] Text files; a sample has the key text.
path | texts | required | Files, folders or globs; .gz is decompressed.
by | one of line, file | line | What one sample is.

[transform center_crop] The square in the middle of an image.
size | int 1..16384 | required | Its side.

[transform color_jitter] Changes the colours of an image by random factors, in random order.
brightness | number 0.. | 0 | Factors from 1 - x to 1 + x.
contrast | number 0.. | 0 | The same.
saturation | number 0.. | 0 | The same.
hue | number 0..0.5 | 0 | Turns the colour circle by up to this part.

[transform decode_image] A JPEG or PNG file becomes inputs, bytes.
key | text 1.. | image | The file's bytes.
channels | int 1..4 | 3 | 1 (grey), 3, or 4 (with alpha).

[transform gaussian_blur] Blurs an image.
kernel_size | int 1..1023 | required | Pixels of each side that are averaged; odd.
sigma | numbers 0..1000 | [0.1, 2] | The least and the largest width of the Gaussian.

[transform grayscale] An image becomes grey.
channels | int 1..3 | 1 | 1, or 3 equal ones.
probability | number 0..1 | 1 | That it does; with 3 channels.

[transform keep] Drops all other keys.
keys | texts | required | The keys that stay.

[transform label] A text becomes targets: its number among the classes.
key | text 1.. | label | The text.
classes | texts | required | The classes, in order.

[transform mask] Masked language modelling: 80 % of the chosen tokens are masked, 10 % replaced.
probability | number 0..1 | 0.15 | That a token is chosen.

[transform normalize] (x - mean) / std for each channel of an image.
mean | numbers | required | Of each channel.
std | numbers | required | Of each channel.

[transform pad] Puts a frame around an image.
padding | int 0..16384 | required | Its pixels, on each side.
fill | number | 0 | Their value.

[transform prompt_response] Fine-tuning: prompt and response become inputs; only responses are learned.
prompt_key | text 1.. | prompt | The text before.
response_key | text 1.. | response | The text that is learned.

[transform random_adjust_sharpness] Sharpens an image, or blurs it.
sharpness_factor | number 0.. | 2 | 0 is smooth, 1 the image.
probability | number 0..1 | 0.5 | That it does.

[transform random_affine] Turns, moves, scales and shears an image.
degrees | numbers -360..360 | [0, 0] | The least and the largest angle, clockwise; [x]: from -x to x.
translate | numbers 0..1 | [0, 0] | At most this part of the width, and of the height.
scale | numbers 0..1000 | [1, 1] | The least and the largest factor.
shear | numbers -89..89 | [0, 0] | Angles, along the rows.
shear_y | numbers -89..89 | [0, 0] | Angles, along the columns.
interpolation | one of nearest, bilinear | nearest | Between pixels.

[transform random_autocontrast] Stretches each channel from 0 to 255.
probability | number 0..1 | 0.5 | That it does.

[transform random_crop] A random square of an image.
size | int 1..16777216 | required | Its side.
padding | int 0..16777216 | 0 | Zeros around the image before.

[transform random_equalize] Makes the values of each channel about equally frequent.
probability | number 0..1 | 0.5 | That it does.

[transform random_erasing] Blanks a random box of an image.
probability | number 0..1 | 0.5 | That it does.
scale | numbers 0..1 | [0.02, 0.33] | The least and the largest part of the area.
ratio | numbers 0..1000 | [0.3, 3.3] | The least and the largest height / width.
value | number | 0 | What is in the box.

[transform random_flip] Mirrors an image, left to right.
probability | number 0..1 | 0.5 | That it does.

[transform random_invert] Makes a negative of an image.
probability | number 0..1 | 0.5 | That it does.

[transform random_perspective] Moves the corners of an image inwards.
distortion_scale | number 0..1 | 0.5 | By up to this part of half the sides.
probability | number 0..1 | 0.5 | That it does.
interpolation | one of nearest, bilinear | bilinear | Between pixels.

[transform random_posterize] Keeps the highest bits of each value.
bits | int 0..8 | required | How many.
probability | number 0..1 | 0.5 | That it does.

[transform random_resized_crop] A random part of an image, scaled to a square.
size | int 1..16384 | required | Its side.
scale | numbers 0..1 | [0.08, 1] | The least and the largest part of the area.
ratio | numbers 0..1000 | [0.75, 1.3333333333333333] | The least and the largest width / height.

[transform random_rotation] Turns an image.
degrees | numbers -360..360 | required | The least and the largest angle, counter-clockwise; [x]: from -x to x.
interpolation | one of nearest, bilinear | nearest | Between pixels.

[transform random_solarize] Inverts bright values.
threshold | int 0..256 | required | From this one on.
probability | number 0..1 | 0.5 | That it does.

[transform random_vertical_flip] Mirrors an image, top to bottom.
probability | number 0..1 | 0.5 | That it does.

[transform rename] Moves a value to another key.
from | text 1.. | required | Where it is.
to | text 1.. | required | Where it goes.

[transform resize] Scales an image, bilinear and antialiased.
size | int 0..16384 | 0 | Its shorter side; the longer one in proportion.
height | int 0..16384 | 0 | Instead of size, with width.
width | int 0..16384 | 0 | Instead of size, with height.

[transform shift] Next-token prediction: targets are the inputs one token later.

[transform to_float] An image of bytes becomes float32, divided by 255.

[transform tokenize] A text becomes a row of tokens.
key | text 1.. | text | The text.
to | text 1.. | inputs | Where the tokens go.
add_special_tokens | bool | true | Those that the tokenizer's models expect.
append_eos | bool | false | An end-of-sequence token at the end.
to_length | int 0..16777216 | 0 | Cut or padded to exactly so many tokens; the special ones stay. 0: as they come.

[transform truncate] Cuts rows of tokens.
max_length | int 1..16777216 | required | Tokens that stay.
keep_end | bool | false | Cut the beginning instead.

[collator stack] All samples have the same shapes.

[collator pad] Rows of tokens are padded to one length, with an attention mask.
pad_id | int -1.. | -1 | The token; -1: the tokenizer's, else 0.
to_length | int 0..16777216 | 0 | Tokens of a row; 0: those of the batch's longest.
to_multiple_of | int 1..16777216 | 1 | Rounds the longest up.
side | one of right, left | right | Where padding goes.

[order global] A permutation of all samples, new each epoch, as shuffle: true has it.
seed | int -1.. | -1 | Of the permutation; -1: the job's.

[order sequential] The order in which the samples are stored.
)";

}  // namespace composer

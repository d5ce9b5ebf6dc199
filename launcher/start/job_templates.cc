// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/job_templates.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

constexpr char kGpt[] = R"(# A small GPT on text, byte by byte.
#   composer -n 2 train.yaml                     train; the same command continues after Ctrl-C or a crash
#   composer validate train.yaml                 check this file without training
#   composer generate train.yaml --prompt "The red "
# `key=value` after the file overrides a key: composer train.yaml max_duration=10ba
run_name: my-gpt
seed: 17

model:
  name: gpt
  vocab_size: 256        # bytes
  n_layers: 2
  n_heads: 2
  d_model: 64
  max_seq_len: 64

train_dataloader:
  name: text_bytes
  path: data/text.txt    # your text; for tokens of a published tokenizer see docs/data.md
  split: train
  max_seq_len: 64
global_train_batch_size: 16

eval_dataloader:
  name: text_bytes
  path: data/text.txt
  split: eval            # its last tenth
  max_seq_len: 64
  batch_size: 16
eval_interval: 100ba

optimizers: {name: decoupled_adamw, lr: 2.0e-3, betas: [0.9, 0.95], weight_decay: 1.0e-4}
schedulers: {name: cosine_annealing_with_warmup, t_warmup: 20ba}
algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1.0}}

max_duration: 200ba
save_interval: 50ba
save_num_checkpoints_to_keep: 3
# precision: amp_bf16    # half the memory, faster where the processor has it
# loggers: {mlflow: {tracking_uri: "http://localhost:5000"}, wandb: {project: my-gpt}}
)";

constexpr char kBert[] = R"(# A small BERT that learns to fill in masked words.
#   composer -n 2 train.yaml
run_name: my-bert
seed: 17

model:
  name: hf
  task: masked_lm        # or sequence_classification with num_labels
  config: {model_type: bert, vocab_size: 64, hidden_size: 64, num_hidden_layers: 2,
           num_attention_heads: 2, intermediate_size: 128, max_position_embeddings: 32}
  # path: bert-base-uncased      a published folder instead: then leave `config` out

tokenizer: {name: hf, path: data/vocab.txt}
train_dataloader:
  name: jsonl
  path: data/text.jsonl          # {"text": "..."} in each line
  transforms: [{tokenize: {}}, {truncate: {max_length: 32}}, {mask: {probability: 0.15}}]
  collate: {name: pad}
global_train_batch_size: 32

optimizers: {name: decoupled_adamw, lr: 1.0e-3, weight_decay: 1.0e-2}
schedulers: {name: linear_decay_with_warmup, t_warmup: 10ba}

max_duration: 10ep
save_interval: 2ep
save_num_checkpoints_to_keep: 3
)";

constexpr char kFinetune[] = R"(# Fine-tuning on prompts and responses; only responses are learned.
#   composer -n 2 train.yaml
# It trains a small GPT from scratch on bytes, so that it runs anywhere. For a published model take the lines with `hf`
# in place of those above them.
run_name: my-finetune
seed: 17

model: {name: gpt, vocab_size: 257, n_layers: 2, n_heads: 2, d_model: 64, max_seq_len: 64}
# model: {name: hf, path: Qwen2-0.5B}               # a folder as transformers writes it
tokenizer: {name: bytes, eos: true}
# tokenizer: {name: hf, path: Qwen2-0.5B}

train_dataloader:
  name: finetuning
  path: data/chats.jsonl         # {"prompt": ..., "response": ...}, or {"messages": [{"role": ..., "content": ...}]}
  max_seq_len: 64
global_train_batch_size: 20

optimizers: {name: decoupled_adamw, lr: 1.0e-3, weight_decay: 0.0}
schedulers: {name: cosine_annealing_with_warmup, t_warmup: 20ba}
algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1.0}}

max_duration: 5ep
save_interval: 1ep
save_num_checkpoints_to_keep: 3
)";

constexpr char kResnet[] = R"(# A small ResNet on Fashion-MNIST.
#   composer -n 2 train.yaml                     train; the same command continues after Ctrl-C or a crash
#   composer validate train.yaml                 check this file without training
run_name: my-resnet
seed: 17

model: {name: resnet_small, num_classes: 10, in_channels: 1}

train_dataloader:
  name: fashion_mnist            # Debian's package dataset-fashion-mnist; `path` names another folder
  split: train
  drop_last: true
# Your own images, a folder for each class, instead:
# train_dataloader:
#   name: image_folder
#   path: images/train
#   transforms: [{resize: {size: 72}}, {random_crop: {size: 64}}, random_horizontal_flip]
global_train_batch_size: 128

eval_dataloader: {name: fashion_mnist, split: test, batch_size: 250}
eval_interval: 1ep

optimizers: {name: decoupled_adamw, lr: 3.0e-3, betas: [0.9, 0.99], weight_decay: 1.0e-4}
schedulers: {name: cosine_annealing_with_warmup, t_warmup: 50ba}
algorithms: {label_smoothing: {smoothing: 0.1}}

max_duration: 2ep
save_interval: 100ba
save_num_checkpoints_to_keep: 3
callbacks: {speed_monitor: {window_size: 50}}
)";

constexpr absl::string_view kAdjectives[] = {"red", "green", "blue", "small", "large", "old", "new"};
constexpr absl::string_view kThings[] = {"house", "tree", "river", "stone", "bird", "road"};
constexpr absl::string_view kVerbs[] = {"stands", "falls", "grows", "shines", "waits"};
constexpr int kSentences = 600;

// Returns the n-th of some thousand sentences, in no visible order.
std::string Sentence(uint64_t n) {
  uint64_t draw = n * 0x9e3779b97f4a7c15 >> 32;
  const auto pick = [&draw](const auto& words) {
    const absl::string_view word = words[draw % std::size(words)];
    draw /= std::size(words);
    return word;
  };
  std::string text = absl::StrCat("The ", pick(kAdjectives), " ", pick(kThings), " ");
  absl::StrAppend(&text, pick(kVerbs), " by the ", pick(kAdjectives));
  return absl::StrCat(text, " ", pick(kThings), ".");
}

Files GptFiles() {
  std::string text;
  for (int i = 0; i < kSentences; ++i) absl::StrAppend(&text, Sentence(i), "\n");
  return {{"train.yaml", kGpt}, {"data/text.txt", text}};
}

Files BertFiles() {
  std::string text, words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\nthe\nby\n";
  for (int i = 0; i < kSentences; ++i) absl::StrAppend(&text, "{\"text\": \"", Sentence(i), "\"}\n");
  for (const absl::string_view word : kAdjectives) absl::StrAppend(&words, word, "\n");
  for (const absl::string_view word : kThings) absl::StrAppend(&words, word, "\n");
  for (const absl::string_view word : kVerbs) absl::StrAppend(&words, word, "\n");
  return {{"train.yaml", kBert}, {"data/text.jsonl", text}, {"data/vocab.txt", words}};
}

Files FinetuneFiles() {
  std::string text;
  for (int a = 0; a < 20; ++a) {
    for (int b = 0; b < 20; ++b)
      absl::StrAppend(&text, "{\"prompt\": \"", a, " plus ", b, " is \", \"response\": \"", a + b, ".\"}\n");
  }
  return {{"train.yaml", kFinetune}, {"data/chats.jsonl", text}};
}

Files ResnetFiles() { return {{"train.yaml", kResnet}}; }

}  // namespace

const std::vector<JobTemplate>& JobTemplates() {
  static const auto& templates = *new std::vector<JobTemplate>{
      {"bert", "a small BERT that fills in masked words", BertFiles},
      {"finetune", "prompts and responses", FinetuneFiles},
      {"gpt", "a small GPT on a text file", GptFiles},
      {"resnet", "a small ResNet on Fashion-MNIST", ResnetFiles},
  };
  return templates;
}

}  // namespace composer

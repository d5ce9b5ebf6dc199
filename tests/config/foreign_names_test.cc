// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "config/document.h"
#include "config/job_check.h"
#include "config/missing_keys.h"
#include "config/yaml.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

std::string Accepted(const std::string& text) {
  ConfigNode root = ParseYaml(text, "t.yaml").value();
  const absl::Status status = AcceptForeignNames(BuiltInSchema(), root);
  return status.ok() ? ToYaml(root) : std::string(status.message());
}

TEST(ForeignNames, ClassNamesAreOurs) {
  const struct {
    const char *kind, *foreign, *ours;
  } kCases[] = {
      {"scheduler", "CosineAnnealingWithWarmupScheduler", "cosine_annealing_with_warmup"},
      {"scheduler", "cosine_with_warmup", "cosine_annealing_with_warmup"},
      {"scheduler", "linear_decay_with_warmup", "linear_with_warmup"},
      {"scheduler", "StepLR", "step_lr"},
      {"scheduler", "CosineAnnealingWarmRestarts", "cosine_annealing_warm_restarts_lr"},
      {"scheduler", "CosineAnnealingWarmRestartsScheduler", "cosine_annealing_warm_restarts"},
      {"optimizer", "DecoupledAdamW", "decoupled_adamw"},
      {"optimizer", "SGD", "sgd"},
      {"callback", "ExportForInferenceCallback", "export_for_inference"},
      {"callback", "LRMonitor", "lr_monitor"},
      {"callback", "MLPerfCallback", "mlperf"},
      {"logger", "TensorboardLogger", "tensorboard"},
      {"logger", "RemoteUploaderDownloader", "remote_uploader_downloader"},
      {"algorithm", "EMA", "ema"},
      {"algorithm", "FusedLayerNorm", "fused_layernorm"},
      {"algorithm", "SelectiveBackprop", "selective_backprop"},
      {"algorithm", "ema", ""},           // ours already
      {"algorithm", "gradientclip", ""},  // a misspelling stays one
      {"optimizer", "NoSuchThing", ""},
  };
  for (const auto& c : kCases) EXPECT_EQ(OurName(c.kind, c.foreign, BuiltInSchema()), c.ours) << c.foreign;
}

// Every class of Composer's that a file can name is accepted or refused by name.
TEST(ForeignNames, AreRewrittenWhereThingsAreNamed) {
  EXPECT_EQ(Accepted("schedulers: [{name: LinearScheduler}]\nalgorithms: [EMA, {MixUp: {alpha: 1}}]\n"
                     "callbacks: {SpeedMonitor: {window_size: 2}}\noptimizers: {name: AdamW, lr: 1}\n"),
            "schedulers:\n  - name: linear\nalgorithms:\n  - ema\n  - mixup:\n      alpha: 1\n"
            "callbacks:\n  speed_monitor:\n    window_size: 2\noptimizers:\n  name: adamw\n  lr: 1\n");
  EXPECT_THAT(
      Accepted("callbacks: {speed_monitor: {}, SpeedMonitor: {}}\n"),
      HasSubstr("t.yaml:1:32: SpeedMonitor: is another name of `speed_monitor`, which is given at t.yaml:1:13"));
}

TEST(ForeignNames, Fsdp2IsFsdp) {
  EXPECT_EQ(Accepted("parallelism_config: {fsdp2: {reshard_after_forward: true, verbose: true}}\n"),
            "parallelism_config:\n  fsdp:\n    sharding_strategy: FULL_SHARD\n    verbose: true\n");
  EXPECT_EQ(Accepted("parallelism_config: {fsdp2: {reshard_after_forward: false}}\n"),
            "parallelism_config:\n  fsdp:\n    sharding_strategy: SHARD_GRAD_OP\n");
  EXPECT_THAT(Accepted("parallelism_config: {fsdp2: {}, fsdp: {}}\n"), HasSubstr("fsdp2: is another name of `fsdp`"));
}

TEST(ForeignNames, ModelsThatAreHereUnderAnotherName) {
  const std::pair<const char*, const char*> kCases[] = {
      {"model: {name: resnet_56}", "model:\n  name: resnet_cifar\n  depth: 56\n"},
      {"model: {name: ResNet50, num_classes: 10}", "model:\n  name: resnet\n  num_classes: 10\n  depth: 50\n"},
      {"model: {name: resnet_57}", "model:\n  name: resnet_57\n"},
      {"model: {name: hf_causal_lm, pretrained_model_name_or_path: a/b}", "model:\n  name: hf\n  path: a/b\n"},
      {"model: {name: hf_bert, pretrained_model_name: a, tokenizer_name: a, use_pretrained: true}",
       "model:\n  name: hf\n  path: a\n  pretrained: true\n"},
      {"model: {name: hf_bert}", "model:\n  name: hf_bert\n"},
      {"model: {name: hf, path: a, peft_config: {peft_type: LORA, r: 4, bias: none, target_modules: [x]}}",
       "model:\n  name: hf\n  path: a\nalgorithms:\n  lora:\n    r: 4\n    target_modules:\n      - x\n"},
      {"model: {name: hf, path: a, peft_config: {peft_type: IA3}}",
       "model:\n  name: hf\n  path: a\n  peft_config:\n    peft_type: IA3\n"},
      {"optimizers: {name: decoupled_lionw, weight_decay: 0.0}", "optimizers:\n  name: lion\n  weight_decay: 0.0\n"},
      {"optimizers: {name: decoupled_lionw, weight_decay: 0.1}",
       "optimizers:\n  name: decoupled_lionw\n  weight_decay: 0.1\n"},
  };
  for (const auto& [text, ours] : kCases) EXPECT_EQ(Accepted(text), ours);
}

TEST(ForeignNames, LoadersKeepTheirDataBeside) {
  EXPECT_EQ(Accepted("train_dataloader: {name: text, dataset: {remote: s3://b, split: train}, drop_last: true}\n"),
            "train_dataloader:\n  name: streaming\n  drop_last: true\n  remote: s3://b\n  split: train\n"
            "  transforms:\n    - rename:\n        from: tokens\n        to: inputs\n    - shift\n");
  EXPECT_EQ(Accepted("train_dataloader: {name: text, path: a.txt}\n"),
            "train_dataloader:\n  name: text\n  path: a.txt\n");
}

class ForeignFiles : public ::testing::Test {
 protected:
  std::string Load(const std::string& text, std::vector<std::string> overrides = {}) {
    const std::string path = dir_.Path("job.yaml");
    EXPECT_TRUE(AtomicWriteFile(path, text).ok());
    const absl::StatusOr<ConfigNode> root = LoadConfig({path}, overrides, Environment());
    return root.ok() ? ToYaml(*root) : std::string(root.status().message());
  }
  TempDir dir_;
};

TEST_F(ForeignFiles, ValuesThatOthersReferToAreVariables) {
  EXPECT_EQ(Load("width: 8\nmodel: {name: mlp, sizes: ['${width}', 2]}\n"),
            "model:\n  name: mlp\n  sizes:\n    - 8\n    - 2\nvariables:\n  width: 8\n");
  EXPECT_EQ(Load("variables: {max_seq_len: 4}\nmax_seq_len: ${variables.max_seq_len}\nseed: ${max_seq_len}\n"),
            "variables:\n  max_seq_len: 4\nseed: 4\n");
  // A value that would be lost stays, and is refused.
  EXPECT_THAT(Load("variables: {max_seq_len: 4}\nmax_seq_len: 5\n"), HasSubstr("max_seq_len: 5"));
  EXPECT_THAT(Load("grad_accum: 4\nseed: ${grad_accum}\n"), HasSubstr("grad_accum: 4\n"));
}

TEST_F(ForeignFiles, AFastDevRunIsShortAndByItself) {
  const std::string job =
      "max_duration: 10ep\nsave_folder: s3://b/x\neval_dataloader: [{name: a, eval_interval: 1ep}, "
      "{name: b, subset_num_batches: 9}]\n";
  EXPECT_EQ(Load(job, {"fast_dev_run=3"}),
            "max_duration: 3ba\neval_dataloader:\n  - name: a\n  - name: b\neval_interval: 3ba\n"
            "eval_subset_num_batches: 3\nsave_interval: 0\nautoresume: false\nsave_overwrite: true\n"
            "run_folder: runs/{run_name}.dev\n");
  EXPECT_THAT(Load(job, {"fast_dev_run=true", "run_folder=there"}),
              testing::AllOf(HasSubstr("max_duration: 1ba\n"), HasSubstr("run_folder: there\n")));
  EXPECT_EQ(Load("seed: 1\nfast_dev_run: false\n"), "seed: 1\n");
  for (const char* bad : {"-1", "x", "[1]", "1.5", "2000000"})
    EXPECT_THAT(Load(job, {std::string("fast_dev_run=") + bad}), HasSubstr("fast_dev_run: expected true, false"));
}

TEST_F(ForeignFiles, DefaultsComeBeforeAFilesOwnKeys) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("base.yaml"), "seed: 1\noptimizer: {name: sgd, lr: 1}\n").ok());
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("more.yaml"), "defaults: base\nseed: 2\nmax_duration: 3ba\n").ok());
  EXPECT_EQ(Load("defaults: [more.yaml, _self_]\noptimizers: {lr: 2}\n", {"seed=7"}),
            "seed: 7\noptimizers:\n  name: sgd\n  lr: 2\nmax_duration: 3ba\n");
  EXPECT_THAT(Load("defaults: [none.yaml]\n"), HasSubstr("job.yaml:1:12: defaults: "));
  EXPECT_THAT(Load("defaults: [job.yaml]\n"), HasSubstr("it includes itself"));
  EXPECT_THAT(Load("defaults: {a: b}\n"), HasSubstr("defaults: expected a list of files"));
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("base.yaml"), "seed: [\n").ok());
  EXPECT_THAT(Load("defaults: base.yaml\n"), HasSubstr("base.yaml:"));
}

std::string Checked(const std::string& text) {
  return std::string(CheckJob(*ParseYaml(text, "t.yaml"), {BuiltInSchema()}).message());
}

TEST(MissingKeys, AnswerByNameWithTheWayOut) {
  const std::pair<const char*, const char*> kCases[] = {
      {"loggers: {MosaicMLLogger: {}}", "there is no logger `MosaicMLLogger`: it writes to the MosaicML platform"},
      {"model: {name: mlp, eval_metrics: [MAP]}",
       "there is no metric `MAP`: it is the mean average precision of boxes"},
      {"loggers: [neptune]", "there is no logger `neptune`: its service has ended; `mlflow`, `wandb`"},
      {"callbacks: {AsyncEval: {}}", "run `composer eval` beside the run"},
      {"optimizers: {name: SparseAdam}", "it needs sparse gradients"},
      {"device: tpu", "device: `tpu`: this machine is not supported; LibTorch here runs on cpu and gpu (CUDA)"},
      {"device: cuda", "write `gpu`"},
      {"precision: fp8", "write amp_fp8"},
      {"icl_tasks: [{label: a, dataset_uri: b, icl_task_type: code_evaluation}]",
       "here nothing that a model writes is run"},
      {"fsdp_config: {te_shard_fp8_weight: true}", "fsdp_config.te_shard_fp8_weight: unknown key; leave it out"},
      {"parallelism_config: {fsdp: {save_planner: x}}", "checkpoints need no planner"},
      {"fsdp_config: {process_group: node}", "use `data_parallel_shard_degree`"},
      {"eval_dataloader: [{name: text, path: a, shuffle: false}]", "evaluations read their data in order"},
      {"model: {name: gpt, attn_config: {}}", "scaled_dot_product_attention"},
      {"callbacks: {checkpoint_saver: {folder: a, remote_file_name: b}}", "a `folder` may be in a store itself"},
      {"callbacks: {export_for_inference: {sample_input: 1}}", "the run's first batch is the example"},
      {"loggers: {slack: {formatter_func: f}}", "a plugin's logger has one in C++"},
      {"loggers: {file_logger: {remote_file_name: f}}", "`files: [logs/*]`"},
      {"loggers: [{mlflow: {model_registry_prefix: a.b}}]", "registered_model"},
      {"loggers: {remote_uploader_downloader: {bucket_uri: 's3://b', backend_kwargs: {}}}", "are in the environment"},
      // What docs/results/surface_shown.md calls refused.
      {"load_progress_bar: false", "leave it out: loading shows no progress bar"},
      {"python_log_level: INFO", "`composer` and its workers log to stderr and to the run's logs/"},
      {"fsdp_config: {ignored_modules: [a]}",
       "every parameter is sharded; `min_num_params` keeps small blocks together"},
      {"fsdp_config: {keep_low_precision_grads: true}", "gradients are sent in `mixed_precision.reduce_dtype`"},
      {"fsdp_config: {device_mesh: [2]}", "the mesh follows from the degrees"},
      {"fsdp_config: {load_planner: x}", "checkpoints need no planner"},
      {"fsdp_config: {te_checkpoint_wrapper: true}", "TransformerEngine's layers"},
      {"fsdp_config: {mixed_precision: {cast_forward_inputs: true}}", "autocast casts what a matrix product reads"},
      {"device_train_microbatch_size: 0.5", "tensor parallelism with SequenceParallel splits long sequences"},
      {"profiler: {torch_prof_with_stack: true}", "a native program has no Python stacks to record; leave it out"},
      {"callbacks: {memory_snapshot: {remote_file_name: f}}", "`files: [traces/*]`"},
      {"callbacks: {checkpoint_saver: {folder: a, num_concurrent_uploads: 2}}", "each rank writes its part"},
      {"model: {name: ComposerClassifier}", "`torchscript` with task: classifier"},
      {"lr: 0.1", "lr: unknown key (did you mean `optimizers.lr`?)"},
  };
  for (const auto& [text, answer] : kCases) EXPECT_THAT(Checked(text), HasSubstr(answer)) << text;
}

}  // namespace
}  // namespace composer

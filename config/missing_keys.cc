// SPDX-License-Identifier: Apache-2.0
#include "config/missing_keys.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "config/name_advice.h"

namespace composer {
namespace {

constexpr absl::string_view kCheckpointNames =
    "checkpoints are folders with names of their own, ep1-ba20, below `save_folder`";
constexpr absl::string_view kOneFormat =
    "leave it out: each rank writes and reads its part of the checkpoint, and any number of ranks can resume from it";
constexpr absl::string_view kMesh = "leave it out: the mesh follows from the degrees and the number of ranks";
constexpr absl::string_view kTransformerEngine =
    "leave it out: it belongs to TransformerEngine's layers, which are Python; with `precision: amp_fp8` gathered "
    "weights are rounded to 8 bits as they are, and `activation_checkpointing` needs no other wrapper";
constexpr absl::string_view kNoPlanners = "leave it out: checkpoints need no planner: every rank reads its pieces";
constexpr absl::string_view kHubs =
    "nothing comes from the Hugging Face hub here; download the folder, and write `model: {name: hf, path: FOLDER}`";

constexpr absl::string_view kFolderInAStore =
    "leave it out: a `folder` may be in a store itself (s3://…), and is written behind training";
constexpr absl::string_view kUploads =
    "leave it out: the logger `remote_uploader_downloader` copies files of the run folder, `files: [traces/*]`";
constexpr absl::string_view kExampleIsTheBatch =
    "leave it out: the run's first batch is the example; inputs are called `inputs` and as the batch names them";
constexpr absl::string_view kSlackVariables =
    "leave it out: SLACK_LOGGING_API_KEY and SLACK_LOGGING_CHANNEL_ID, or SLACK_WEBHOOK_URL, in the environment";

struct MissingKey {
  absl::string_view key;  // fsdp.X stands for fsdp_config.X and parallelism_config.fsdp.X
  absl::string_view why;
};

constexpr MissingKey kMissingKeys[] = {
    // Arguments of mosaicml 0.32.1's Trainer, then their older names.
    {"spin_dataloaders",
     "leave it out: which samples a batch has is a function of seed and position, so that nothing is skipped over when "
     "a run goes on"},
    {"algorithm_passes",
     "leave it out: passes over algorithms are registered in C++ (EngineOptions::algorithm_passes); in a job's file "
     "the order of `algorithms` is theirs"},
    {"load_object_store", "`load_path` takes a folder, or s3://, gs://, oci://, azure://, dbfs:/ or https:// itself"},
    {"load_progress_bar", "leave it out: loading shows no progress bar"},
    {"python_log_level",
     "leave it out: there is no Python; `composer` and its workers log to stderr and to the run's logs/"},
    {"save_path_format", kCheckpointNames},
    {"save_name_format", kCheckpointNames},
    {"save_latest_format", kCheckpointNames},
    {"find_unused_parameters", "`ddp_config`: {find_unused_parameters: true}"},
    {"auto_microbatching", "use `device_train_microbatch_size`: auto"},
    {"dist_backend", "leave it out: gloo on a CPU, NCCL on a GPU"},
    // Fields of FSDPConfig, FSDP2Config and TPConfig.
    {"fsdp.use_orig_params", "leave it out: parameters keep their names, shapes and groups always"},
    {"fsdp.state_dict_type", kOneFormat},
    {"fsdp.sharded_ckpt_prefix_dir", kOneFormat},
    {"fsdp.load_monolith_rank0_only", kOneFormat},
    {"fsdp.load_fsdp_monolith_rank0_only", kOneFormat},
    {"fsdp.te_checkpoint_wrapper", kTransformerEngine},
    {"fsdp.te_shard_fp8_weight", kTransformerEngine},
    {"fsdp.ignored_modules", "leave it out: every parameter is sharded; `min_num_params` keeps small blocks together"},
    {"fsdp.keep_low_precision_grads",
     "leave it out: gradients are sent in `mixed_precision.reduce_dtype` and kept in float32"},
    {"fsdp.load_planner", kNoPlanners},
    {"fsdp.save_planner", kNoPlanners},
    {"fsdp.process_group",
     "use `data_parallel_shard_degree` and `data_parallel_replicate_degree`: which ranks share follows from them"},
    {"fsdp.device_mesh", kMesh},
    {"fsdp.flatten_parameters", "leave it out: parameters of a unit always travel together"},
    {"fsdp.mixed_precision.cast_forward_inputs", "leave it out: autocast casts what a matrix product reads"},
    {"fsdp.mixed_precision.cast_root_forward_inputs", "leave it out: autocast casts what a matrix product reads"},
    {"fsdp.mixed_precision.keep_low_precision_grads", "leave it out: gradients are kept in float32"},
    {"parallelism_config.tp.device_mesh", kMesh},
    // Options of callbacks and loggers.
    {"callbacks.checkpoint_saver.remote_file_name", kFolderInAStore},
    {"callbacks.checkpoint_saver.latest_remote_file_name", kFolderInAStore},
    {"callbacks.checkpoint_saver.num_concurrent_uploads",
     "leave it out: each rank writes its part, large ones in several pieces at once"},
    {"callbacks.checkpoint_saver.upload_timeout_in_seconds",
     "leave it out: a write is tried again for three minutes, and a save that fails ends no run"},
    {"callbacks.export_for_inference.save_object_store",
     "leave it out: `composer checkpoint export RUN s3://bucket/folder` writes there afterwards"},
    {"callbacks.export_for_inference.sample_input", kExampleIsTheBatch},
    {"callbacks.export_for_inference.transforms",
     "leave it out: weights are written as they are; `composer checkpoint export --dtype` converts them"},
    {"callbacks.export_for_inference.input_names", kExampleIsTheBatch},
    {"callbacks.export_for_inference.output_names", kExampleIsTheBatch},
    {"callbacks.memory_snapshot.remote_file_name", kUploads},
    {"callbacks.memory_snapshot.overwrite", "leave it out: a file of the same name is replaced"},
    {"callbacks.oom_observer.remote_file_name", kUploads},
    {"callbacks.oom_observer.overwrite", "leave it out: a file of the same name is replaced"},
    {"callbacks.system_metrics_monitor.gpu_available", "leave it out: GPUs are found"},
    {"loggers.file_logger.remote_file_name",
     "leave it out: the logger `remote_uploader_downloader` copies files of the run folder, `files: [logs/*]`"},
    {"loggers.file_logger.buffer_size", "leave it out: a line is written when it is complete"},
    {"loggers.mlflow.model_registry_prefix", "write `registered_model: PREFIX.NAME` and `log_artifacts: true`"},
    {"loggers.mlflow.model_registry_uri", "leave it out: models are registered at `tracking_uri`"},
    {"loggers.mlflow.log_system_metrics", "leave it out: the callback `system_metrics_monitor` measures them"},
    {"loggers.mlflow.synchronous", "leave it out: metrics go to the server behind training, and none is lost"},
    {"loggers.mlflow.run_group", "write `tags: [run_group=NAME]`"},
    {"loggers.mlflow.resume", "leave it out: a run that goes on is continued there"},
    {"loggers.remote_uploader_downloader.backend_kwargs",
     "leave it out: addresses and keys of stores are in the environment (docs/environment.md)"},
    {"loggers.slack.formatter_func", "leave it out: it is a Python function; a plugin's logger has one in C++"},
    {"loggers.slack.slack_logging_api_key", kSlackVariables},
    {"loggers.slack.channel_id", kSlackVariables},
    {"loggers.wandb.init_kwargs",
     "leave it out: nothing is sent; `wandb sync` takes what it needs from its own settings"},
    // llm-foundry's and mosaicml/examples'.
    {"is_train", "leave it out: `train_dataloader` and `eval_dataloader` say which data are for what"},
    {"train_dataset", "leave it out: `train_dataloader` has the data in itself"},
    {"eval_dataset", "leave it out: `eval_dataloader` has the data in itself"},
    {"train_dataloader.max_seq_len", "leave it out: rows have the length with which they are stored; `truncate` cuts"},
    {"eval_dataloader.max_seq_len", "leave it out: rows have the length with which they are stored; `truncate` cuts"},
    {"eval_dataloader.shuffle", "leave it out: evaluations read their data in order"},
    {"eval_dataloader.drop_last", "leave it out: evaluations leave nothing out, and count nothing twice"},
    {"train_dataloader.hf_name", "data sets do not come from the Hugging Face hub here; write `path` with JSON lines"},
    {"eval_dataloader.hf_name", "data sets do not come from the Hugging Face hub here; write `path` with JSON lines"},
    {"train_dataloader.split", "leave it out: `path` names the files"},
    {"eval_dataloader.split", "leave it out: `path` names the files"},
    {"train_dataloader.tokenizer_name", "write `tokenizer` at the top, and the transform `tokenize`"},
    {"train_dataloader.task", "leave it out: the rows of `path` are those of the task"},
    {"eval_dataloader.tokenizer_name", "write `tokenizer` at the top, and the transform `tokenize`"},
    {"expandable_segments", "leave it out: PYTORCH_CUDA_ALLOC_CONF says it to the allocator"},
    {"max_split_size_mb", "leave it out: PYTORCH_CUDA_ALLOC_CONF says it to the allocator"},
    {"cuda_load_lazy", "leave it out: CUDA_MODULE_LOADING says it to CUDA"},
    {"autoresume_fallback", "leave it out: a damaged checkpoint falls back to the one before"},
    {"code_paths", "leave it out: code of your own goes into `plugins`"},
    {"compile", "leave it out: torch.compile needs Python; models are native already"},
    {"dist_config", "leave it out: `dist_timeout` and `collectives` are keys of their own"},
    {"metadata", "leave it out: `auto_log_hparams: true` logs the keys of this file"},
    {"model.init_device", "leave it out: models are always built without memory for their parameters"},
    {"model.pretrained", kHubs},
    {"model.pretrained_model_name_or_path", kHubs},
    {"model.use_auth_token", kHubs},
    {"model.tokenizer_name", "leave it out: `tokenizer: {name: hf, path: FOLDER}` at the top is the tokenizer"},
    {"model.peft_config", "say `algorithms: {lora: {target_modules: …, r: …}}` in its place"},
    {"model.attn_config",
     "leave it out: attention is torch's scaled_dot_product_attention, with learned positions; `attention_backend: "
     "flash` of the job chooses its kernel on a GPU"},
    {"model.ffn_config", "leave it out: the feed-forward network is 4 d_model wide, with GELU"},
    {"model.fc_type", "leave it out: layers are torch's"},
    {"model.norm_type", "leave it out: norms are LayerNorm"},
    {"model.expansion_ratio", "leave it out if it is 4: the feed-forward network is 4 d_model wide"},
    {"model.no_bias", "leave it out: layers have biases"},
    {"model.init_config", "leave it out: weights begin as GPT-2's"},
    {"model.loss_fn", "leave it out: the loss is cross-entropy"},
    {"persistent_workers", "leave it out: workers are threads and live as long as the loader"},
    {"train_dataloader.persistent_workers", "leave it out: workers are threads and live as long as the loader"},
    {"eval_dataloader.persistent_workers", "leave it out: workers are threads and live as long as the loader"},
    {"train_dataloader.dataset", "leave it out: keys of the data set stand beside its `name`"},
    {"eval_dataloader.dataset", "leave it out: keys of the data set stand beside its `name`"},
};

struct MissingName {
  absl::string_view kind;
  absl::string_view names;  // without `_`, in small letters
  absl::string_view why;
};

constexpr absl::string_view kAutomatic = "leave it out: there is no Python garbage collector to schedule";

constexpr MissingName kMissingNames[] = {
    {"logger", "comet", "write `cometml`"},
    {"logger", "neptune", "its service has ended; `mlflow`, `wandb`, `cometml`, `tensorboard`, or metrics.jsonl"},
    {"logger", "mosaicml", "it writes to the MosaicML platform, which is closed; metrics.jsonl has the same values"},
    {"logger", "progressbar", "write `progress_bar: true` at the top"},
    {"logger", "console", "write `log_to_console: true` at the top"},
    {"logger", "objectstore", "write `remote_uploader_downloader`"},
    {"callback", "scheduledgarbagecollector scheduledgc", kAutomatic},
    {"callback", "hfcheckpointer huggingfacecheckpointer",
     "write `export_for_inference`, or `composer checkpoint export` afterwards"},
    {"callback", "monolithicckptcallback monolithicckpt", "checkpoints are whole on any number of ranks already"},
    {"callback", "asynceval", "run `composer eval` beside the run"},
    {"callback", "curriculumlearning",
     "`seq_length_warmup` is an algorithm; data that changes is another run from `load_path`"},
    {"callback", "datasetswap", "run again with the other data, from `load_path`"},
    {"callback", "checkpointupload", "leave it out: a `save_folder` in a bucket is written behind training"},
    {"callback", "globallrscaling layerfreezing", "write `optimizers.lr`, and the algorithm `layer_freezing`"},
    {"callback", "evalgauntlet", "write `eval_gauntlet` at the top"},
    {"callback", "runtimecallback logmbmoetokperexpert moegatingmonitor", "it measures llm-foundry's own models"},
    {"callback", "kill", "write `fail_at`"},
    {"algorithm", "stochasticdepthsample", "write `stochastic_depth: {stochastic_method: sample}`"},
    {"metric", "map meanaverageprecision",
     "it is the mean average precision of boxes, and no model here finds boxes; a plugin has both (AddMetric)"},
    {"optimizer", "sparseadam",
     "it needs sparse gradients, which no layer here makes; `adam` updates all rows of an embedding"},
    {"optimizer", "adalrlion clippedlion noadalrlion",
     "it is an experiment of llm-foundry's; write `lion` with `gradient_clipping`"},
    {"optimizer", "decoupledlionw",
     "write `lion` with the weight_decay divided by lr: it multiplies weight_decay by the learning rate"},
    {"optimizer", "onebitadam onebitlamb zerooneadam lamb fusedlamb cpuadam",
     "write `adamw`; `ddp_config.gradient_compression` sends fewer bytes"},
    {"scheduler", "invsqrtwithwarmup inversesquarerootwithwarmup",
     "it is llm-foundry's; write `polynomial_with_warmup`, or a schedule of a plugin"},
    {"scheduler", "lambdalr multiplicativelr", "it needs a Python function; a schedule of a plugin has one in C++"},
    {"scheduler", "sequentiallr", "a list of `schedulers` multiplies their factors, each with its own times"},
    {"scheduler", "chained", "write a list of `schedulers`: their factors multiply"},
    {"model", "hfcausallm hft5 hfprefixlm hfbert huggingface", kHubs},
    {"model", "composerclassifier", "write `mlp`, `resnet`, or `torchscript` with task: classifier"},
    {"dataset", "glue", "write `jsonl` or `parquet` with the task's rows, renamed to inputs and targets"},
    {"dataset", "denoising", "write `jsonl` or `text` with the transforms tokenize and mask"},
    {"tokenizer", "tiktoken sentencepiece", "write `tokenizer: {name: hf, path: FILE}` with its file"},
};

constexpr struct {
  absl::string_view path, values, why;
} kMissingChoices[] = {
    {"device", "tpu mps hpu neuron xla", "this machine is not supported; LibTorch here runs on cpu and gpu (CUDA)"},
    {"device", "cuda", "write `gpu`"},
    {"device_train_microbatch_size", "0.5 0.25 0.125 0.0625",
     "a part of a sample is Composer's sequence parallelism by the loader, which is not here; write a whole number or "
     "auto; tensor parallelism with SequenceParallel splits long sequences"},
    {"icl_tasks.icl_task_type", "code_evaluation",
     "it runs programs that a model has written, and llm-foundry gives them to a sandbox outside (Lambda, or none on "
     "the local machine); here nothing that a model writes is run: write the programs with `composer generate --json`, "
     "and run their tests where they can do no harm"},
    {"precision", "fp8", "write amp_fp8"},
    {"precision", "amp", "write amp_fp16"},
    {"profiler.torch_prof_with_stack", "true", "a native program has no Python stacks to record; leave it out"},
    {"precision", "bf16 bfloat16", "write amp_bf16"},
    {"precision", "fp16 float16", "write amp_fp16"},
};

bool HasWord(absl::string_view words, absl::string_view word) {
  for (absl::string_view one : absl::StrSplit(words, ' ')) {
    if (one == word) return true;
  }
  return false;
}

// Converts "eval_dataloader.0.name" to "eval_dataloader.name", and both places of FSDP's keys to "fsdp.…".
std::string Canonical(absl::string_view path) {
  std::vector<absl::string_view> parts;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    const bool index = !part.empty() && part.find_first_not_of("0123456789") == absl::string_view::npos;
    if (!index) parts.push_back(part);
  }
  std::string joined = absl::StrJoin(parts, ".");
  absl::string_view rest = joined;
  if (absl::ConsumePrefix(&rest, "fsdp_config.") || absl::ConsumePrefix(&rest, "parallelism_config.fsdp."))
    return absl::StrCat("fsdp.", rest);
  return joined;
}

}  // namespace

std::string MissingKeyReason(absl::string_view path) {
  const std::string key = Canonical(path);
  for (const MissingKey& entry : kMissingKeys) {
    if (key == entry.key) return std::string(entry.why);
  }
  return "";
}

std::string MissingNameReason(absl::string_view kind, absl::string_view name) {
  const std::string bare = BareName(name);
  for (const MissingName& entry : kMissingNames) {
    if (kind == entry.kind && HasWord(entry.names, bare)) return std::string(entry.why);
  }
  if (kind == "tokenizer" && name.find_first_of("/$") != name.npos)
    return "nothing comes from the Hugging Face hub here; write `tokenizer: {name: hf, path: FOLDER}`";
  return "";
}

std::string MissingChoiceReason(absl::string_view path, absl::string_view value) {
  for (const auto& entry : kMissingChoices) {
    if (Canonical(path) == entry.path && HasWord(entry.values, absl::AsciiStrToLower(value.substr(0, 64))))
      return std::string(entry.why);
  }
  return "";
}

}  // namespace composer

// deepspeed_config, key by key. Source: deepspeed.ai/docs/config-json.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "config/foreign_names.h"
#include "config/missing_keys.h"
#include "config/scalar.h"

namespace composer {
namespace {

constexpr absl::string_view kBuckets =
    "leave it out: units are gathered and summed whole; `ddp_config.bucket_cap_mb` is for models that are not sharded";
constexpr absl::string_view kPrinted = "leave it out: the progress bar, the console and metrics.jsonl say it";
constexpr absl::string_view kScaler = "leave it out: the gradient scaler is torch's, which starts at 65536 and adapts";

// What has no counterpart; keys of maps are written with a dot.
constexpr struct {
  absl::string_view key, why;
} kRefused[] = {
    {"steps_per_print", kPrinted},
    {"wall_clock_breakdown", kPrinted},
    {"dump_state", "leave it out: `composer --explain` prints every setting"},
    {"tensorboard", "write the logger `tensorboard`"},
    {"wandb", "write the logger `wandb`"},
    {"csv_monitor", "leave it out: metrics.jsonl has the values"},
    {"flops_profiler", "write `profiler`: {torch_prof_with_flops: true}"},
    {"comms_logger", "write `profiler`"},
    {"autotuning", "leave it out: `device_train_microbatch_size: auto` finds what fits"},
    {"activation_checkpointing", "write `parallelism_config.fsdp.activation_checkpointing`"},
    {"communication_data_type", "write `parallelism_config.fsdp.mixed_precision`: {reduce_dtype: …}"},
    {"prescale_gradients", "leave it out: gradients are sums over the global batch, divided once"},
    {"gradient_predivide_factor", "leave it out: gradients are sums over the global batch, divided once"},
    {"sparse_gradients", "leave it out: no layer makes sparse gradients"},
    {"sparse_attention", "leave it out: attention is dense"},
    {"zero_allow_untested_optimizer", "leave it out: every optimizer but lbfgs is sharded exactly"},
    {"zero_force_ds_cpu_optimizer", "leave it out: the optimizer runs where its shards are"},
    {"amp", "write `precision`: amp_fp16"},
    {"aio", "leave it out: nothing is kept on disks while training"},
    {"data_efficiency", "`seq_length_warmup` is an algorithm"},
    {"curriculum_learning", "`seq_length_warmup` is an algorithm"},
    {"progressive_layer_drop", "`stochastic_depth` is an algorithm"},
    {"compression_training", "leave it out: training with quantized weights is not here"},
    {"checkpoint", "leave it out: checkpoints are elastic already"},
    {"elasticity", "leave it out: any number of ranks resumes; `composer --nodes MIN:MAX`"},
    {"zero_optimization.allgather_partitions", kBuckets},
    {"zero_optimization.allgather_bucket_size", kBuckets},
    {"zero_optimization.reduce_scatter", kBuckets},
    {"zero_optimization.reduce_bucket_size", kBuckets},
    {"zero_optimization.contiguous_gradients", "leave it out: gradients of a unit always lie together"},
    {"zero_optimization.round_robin_gradients", kBuckets},
    {"zero_optimization.sub_group_size", kBuckets},
    {"zero_optimization.stage3_prefetch_bucket_size", "write `parallelism_config.fsdp.backward_prefetch_limit`"},
    {"zero_optimization.stage3_param_persistence_threshold", "write `parallelism_config.fsdp.min_num_params`"},
    {"zero_optimization.stage3_max_live_parameters", "write `parallelism_config.fsdp.limit_all_gathers`"},
    {"zero_optimization.stage3_max_reuse_distance", "leave it out: a unit is freed after it has run"},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "leave it out: checkpoints are read by any tool"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "leave it out: checkpoints are read by any tool"},
    {"zero_optimization.elastic_checkpoint", "leave it out: checkpoints are elastic already"},
    {"zero_optimization.zero_hpz_partition_size",
     "write `parallelism_config.fsdp`: {sharding_strategy: HYBRID_SHARD, data_parallel_shard_degree: …}"},
    {"zero_optimization.cpu_offload", "write `offload_optimizer: {device: cpu}`"},
    {"fp16.initial_scale_power", kScaler},
    {"fp16.loss_scale_window", kScaler},
    {"fp16.hysteresis", kScaler},
    {"fp16.consecutive_hysteresis", kScaler},
    {"fp16.min_loss_scale", kScaler},
    {"fp16.auto_cast", "leave it out: autocast is always on with amp_fp16"},
    {"optimizer.params.torch_adam", "leave it out: the update is torch's, fused"},
    {"optimizer.params.bias_correction", "leave it out: averages are always corrected"},
    {"optimizer.params.freeze_step", "leave it out: it belongs to the 1-bit optimizers"},
    {"optimizer.params.max_grad_norm", "write `gradient_clipping`"},
    {"optimizer.legacy_fusion", "leave it out: the update is fused"},
};

class DeepSpeed {
 public:
  DeepSpeed(ConfigNode& root, const ConfigNode& config) : root_(root), config_(config) {}

  absl::Status Accept() {
    if (!config_.is_map()) {
      Fail(config_, "", absl::StrCat("expected a map, got ", config_.Describe()));
    } else {
      Each(config_, "", [&](const ConfigNode& child) { return Top(child); });
    }
    if (errors_.empty()) Finish();
    return errors_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(absl::StrJoin(errors_, "\n"));
  }

 private:
  void Fail(const ConfigNode& at, absl::string_view path, absl::string_view why) {
    const SourceMark& mark = at.key_mark.source.empty() ? at.mark : at.key_mark;
    errors_.push_back(absl::StrCat(mark.ToString(), ": deepspeed_config", path.empty() ? "" : ".", path, ": ", why));
  }

  // Calls `take` for each key that is not "auto"; what it does not take is refused, with the reason if there is one.
  template <typename Take>
  void Each(const ConfigNode& map, const std::string& path, const Take& take) {
    for (const ConfigNode& child : map.children) {
      const std::string at = path.empty() ? child.key : absl::StrCat(path, ".", child.key);
      if (child.is_null() || (child.is_scalar() && child.scalar == "auto") || take(child)) continue;
      absl::string_view why = "has no counterpart here";
      for (const auto& entry : kRefused) {
        if (entry.key == at) why = entry.why;
      }
      Fail(child, at, why);
    }
  }

  bool Bool(const ConfigNode& node, const std::string& path) {
    const absl::StatusOr<bool> value = ParseBoolScalar(node);
    if (!value.ok()) Fail(node, path, value.status().message());
    return value.value_or(false);
  }
  double Number(const ConfigNode& node, const std::string& path) {
    const absl::StatusOr<double> value = ParseDoubleScalar(node);
    if (!value.ok()) Fail(node, path, value.status().message());
    return value.value_or(0);
  }
  int64_t Count(const ConfigNode& node, const std::string& path) {
    const absl::StatusOr<int64_t> value = ParseIntScalar(node);
    if (!value.ok() || *value < 1 || *value > (int64_t{1} << 31)) {
      Fail(node, path, absl::StrCat("expected a count, got ", node.Describe()));
      return 0;
    }
    return *value;
  }

  bool Top(const ConfigNode& node) {
    if (node.key == "train_batch_size") {
      global_batch_ = Count(node, node.key);
    } else if (node.key == "train_micro_batch_size_per_gpu") {
      microbatch_ = Count(node, node.key);
    } else if (node.key == "gradient_accumulation_steps") {
      accumulation_ = Count(node, node.key);
    } else if (node.key == "gradient_clipping") {
      clipping_ = Number(node, node.key);
    } else if (!node.is_map()) {
      return false;
    } else if (node.key == "zero_optimization") {
      Each(node, node.key, [&](const ConfigNode& child) { return Zero(child); });
    } else if (node.key == "fp16" || node.key == "bf16" || node.key == "bfloat16") {
      Each(node, node.key, [&](const ConfigNode& child) { return Half(node, child); });
    } else if (node.key == "optimizer") {
      ReadOptimizer(node);
    } else if (node.key == "scheduler") {
      ReadScheduler(node);
    } else {
      return false;
    }
    return true;
  }

  bool Zero(const ConfigNode& node) {
    const std::string path = absl::StrCat("zero_optimization.", node.key);
    if (node.key == "stage") {
      const double stage = Number(node, path);
      if (stage != 0 && stage != 1 && stage != 2 && stage != 3) Fail(node, path, "is 0, 1, 2 or 3");
      stage_ = static_cast<int>(stage);
    } else if (node.key == "overlap_comm") {
      overlap_ = Bool(node, path) ? "true" : "false";
    } else if ((node.key == "offload_optimizer" || node.key == "offload_param") && node.is_map()) {
      Each(node, path, [&](const ConfigNode& child) {
        if (child.key != "device") return false;
        const std::string device = child.is_scalar() ? absl::AsciiStrToLower(child.scalar) : "";
        if (device == "nvme") Fail(child, path, "nvme: shards are offloaded to host memory only; write cpu");
        offload_ = offload_ || device == "cpu";
        return device == "cpu" || device == "none" || device == "nvme";
      });
    } else {
      return false;
    }
    return true;
  }

  bool Half(const ConfigNode& half, const ConfigNode& node) {
    const std::string path = absl::StrCat(half.key, ".", node.key);
    if (node.key == "loss_scale" && half.key == "fp16") {
      if (Number(node, path) != 0) Fail(node, path, "only 0: the scale of losses adapts");
      return true;
    }
    if (node.key != "enabled") return false;
    if (!Bool(node, path)) return true;
    if (!precision_.empty()) Fail(node, path, "fp16 and bf16 are both enabled");
    precision_ = half.key == "fp16" ? "amp_fp16" : "amp_bf16";
    return true;
  }

  void ReadOptimizer(const ConfigNode& node) {
    optimizer_ = MadeMap(node, "optimizers");
    const ConfigNode* type = node.Find("type");
    std::string name = type != nullptr && type->is_scalar() ? absl::AsciiStrToLower(type->scalar) : "";
    const ConfigNode* params = node.Find("params");
    const ConfigNode* decoupled = params == nullptr ? nullptr : params->Find("adam_w_mode");
    // DeepSpeed's Adam is AdamW unless told otherwise, and neither decays weights by default.
    if (name == "adam" && (decoupled == nullptr || Bool(*decoupled, "optimizer.params.adam_w_mode"))) name = "adamw";
    if (name != "adam" && name != "adamw" && name != "sgd" && name != "lion") {
      const std::string reason = MissingNameReason("optimizer", name);
      Fail(node, "optimizer.type",
           absl::StrCat("`", name.substr(0, 64), "`: ", reason.empty() ? "write `optimizers`" : reason));
      return;
    }
    optimizer_.children.push_back(MadeScalar(node, "name", name));
    Each(node, "optimizer", [&](const ConfigNode& child) {
      if (child.key != "params" || !child.is_map()) return child.key == "type";
      Each(child, "optimizer.params", [&](const ConfigNode& param) {
        const bool of_sgd = param.key == "momentum" || param.key == "nesterov" || param.key == "dampening";
        const bool of_adam = param.key == "eps" || param.key == "amsgrad";
        const bool adam = name == "adam" || name == "adamw";
        if (param.key == "adam_w_mode" && adam) return true;
        const bool known = param.key == "lr" || param.key == "weight_decay" || (of_sgd && name == "sgd") ||
                           (of_adam && adam) || (param.key == "betas" && name != "sgd");
        if (known) optimizer_.children.push_back(param);
        return known;
      });
      return true;
    });
    if (name == "adamw" && optimizer_.Find("weight_decay") == nullptr)
      optimizer_.children.push_back(MadeScalar(node, "weight_decay", "0"));
  }

  void ReadScheduler(const ConfigNode& node) {
    const ConfigNode* type = node.Find("type");
    const ConfigNode* params = node.Find("params");
    const std::string name = type != nullptr && type->is_scalar() ? type->scalar : "";
    const bool constant = name == "WarmupLR", decay = name == "WarmupDecayLR", cosine = name == "WarmupCosineLR";
    if (!constant && !decay && !cosine) {
      return Fail(node, "scheduler.type",
                  absl::StrCat("`", name.substr(0, 64), "`: write `schedulers`, such as one_cycle_lr"));
    }
    scheduler_ = MadeMap(node, "schedulers");
    const absl::string_view ours =
        constant ? "constant_with_warmup" : (decay ? "linear_with_warmup" : "cosine_annealing_with_warmup");
    scheduler_.children.push_back(MadeScalar(node, "name", ours));
    int64_t warmup = 1000;
    std::string form = "log", alpha_f = "1e-4";
    Each(params == nullptr ? node : *params, "scheduler.params", [&](const ConfigNode& param) {
      const std::string path = absl::StrCat("scheduler.params.", param.key);
      if (param.key == "warmup_num_steps") {
        warmup = Count(param, path);
      } else if (param.key == "total_num_steps" && !constant) {
        scheduler_.children.push_back(MadeScalar(param, "t_max", absl::StrCat(Count(param, path), "ba")));
      } else if (param.key == "warmup_type" && param.is_scalar()) {
        form = param.scalar;
      } else if (param.key == "warmup_max_lr" && !cosine) {
        peak_ = param;
      } else if (param.key == "warmup_min_lr" || param.key == "warmup_min_ratio") {
        if (Number(param, path) != 0) Fail(param, path, "only 0: a warm-up begins at 0");
      } else if (param.key == "cos_min_ratio" && cosine && param.is_scalar()) {
        alpha_f = param.scalar;
      } else {
        return false;
      }
      return true;
    });
    if (form != "linear")
      Fail(node, "scheduler.params.warmup_type", "write linear: a warm-up is a line (default: log)");
    if (cosine) scheduler_.children.push_back(MadeScalar(node, "alpha_f", alpha_f));
    scheduler_.children.push_back(MadeScalar(node, "t_warmup", absl::StrCat(warmup, "ba")));
  }

  void Add(ConfigNode value) {
    const ConfigNode* given = root_.Find(value.key);
    if (given == nullptr) {
      added_.push_back(std::move(value));
    } else if (!given->is_scalar() || given->scalar != value.scalar) {
      Fail(config_, "", absl::StrCat("sets `", value.key, "`, which is given at ", given->key_mark.ToString()));
    }
  }

  // The peak of a schedule of DeepSpeed is the learning rate, whatever the optimizer's.
  void SetPeak() {
    if (peak_.key.empty()) return;
    if (optimizer_.is_map()) {
      if (ConfigNode* lr = optimizer_.Find("lr")) {
        lr->AssignValue(peak_);
      } else {
        optimizer_.children.push_back(MadeScalar(peak_, "lr", peak_.scalar));
      }
      return;
    }
    const ConfigNode* lr = root_.FindPath("optimizers.lr");
    const absl::StatusOr<double> peak = ParseDoubleScalar(peak_);
    const absl::StatusOr<double> own = lr == nullptr ? absl::NotFoundError("") : ParseDoubleScalar(*lr);
    if (!peak.ok() || !own.ok() || *peak != *own)
      Fail(peak_, "scheduler.params.warmup_max_lr", "must be `optimizers.lr`, the learning rate after the warm-up");
  }

  void AddClipping() {
    if (clipping_ <= 0) return;
    ConfigNode clipping = MadeMap(config_, "gradient_clipping");
    clipping.children.push_back(MadeScalar(config_, "clipping_type", "norm"));
    clipping.children.push_back(MadeScalar(config_, "clipping_threshold", absl::StrCat(clipping_)));
    ConfigNode* algorithms = root_.Find("algorithms");
    if (algorithms == nullptr) {
      added_.push_back(MadeMap(config_, "algorithms"));
      added_.back().children.push_back(std::move(clipping));
    } else if (algorithms->is_map() && algorithms->Find("gradient_clipping") == nullptr) {
      algorithms->children.push_back(std::move(clipping));
    } else if (algorithms->is_list()) {
      ConfigNode item = MadeMap(config_, "");
      item.children.push_back(std::move(clipping));
      algorithms->children.push_back(std::move(item));
    } else {
      Fail(config_, "gradient_clipping", "write the algorithm `gradient_clipping` in `algorithms`");
    }
  }

  void AddSharding() {
    if (stage_ == 0) {
      if (offload_) Fail(config_, "zero_optimization", "offloading needs stage 1, 2 or 3");
      return;
    }
    ConfigNode fsdp = MadeMap(config_, "fsdp");
    fsdp.children.push_back(MadeScalar(config_, "sharding_strategy", stage_ == 3 ? "FULL_SHARD" : "SHARD_GRAD_OP"));
    if (offload_) fsdp.children.push_back(MadeScalar(config_, "cpu_offload", "true"));
    if (!overlap_.empty()) fsdp.children.push_back(MadeScalar(config_, "overlap_communication", overlap_));
    ConfigNode parallelism = MadeMap(config_, "parallelism_config");
    parallelism.children.push_back(std::move(fsdp));
    if (root_.Find("fsdp_config") != nullptr) Fail(config_, "zero_optimization", "`fsdp_config` is given, too");
    Add(std::move(parallelism));
  }

  void Finish() {
    if (global_batch_ > 0) {
      Add(MadeScalar(config_, "global_train_batch_size", absl::StrCat(global_batch_)));
    } else if (accumulation_ > 1 && microbatch_ > 0) {
      Add(MadeScalar(config_, "device_train_batch_size", absl::StrCat(microbatch_ * accumulation_)));
    } else if (accumulation_ > 1) {
      Fail(config_, "gradient_accumulation_steps", "needs train_batch_size or train_micro_batch_size_per_gpu");
    }
    if (microbatch_ > 0) Add(MadeScalar(config_, "device_train_microbatch_size", absl::StrCat(microbatch_)));
    if (!precision_.empty()) Add(MadeScalar(config_, "precision", precision_));
    AddSharding();
    AddClipping();
    SetPeak();
    if (optimizer_.is_map()) Add(optimizer_);
    if (scheduler_.is_map()) Add(scheduler_);
    if (!errors_.empty()) return;
    for (ConfigNode& value : added_) root_.children.push_back(std::move(value));
  }

  ConfigNode& root_;
  const ConfigNode config_;  // a copy: the root grows
  int64_t global_batch_ = 0, microbatch_ = 0, accumulation_ = 1;
  int stage_ = 0;
  bool offload_ = false;
  double clipping_ = 0;
  std::string overlap_, precision_;
  ConfigNode optimizer_, scheduler_, peak_;
  std::vector<ConfigNode> added_;
  std::vector<std::string> errors_;
};

}  // namespace

absl::Status AcceptDeepSpeed(ConfigNode& root) {
  const ConfigNode* config = root.Find("deepspeed_config");
  if (config == nullptr) return absl::OkStatus();
  ConfigNode changed = root;
  if (IsGiven(config)) {
    if (const absl::Status status = DeepSpeed(changed, *config).Accept(); !status.ok()) return status;
  }
  changed.children.erase(changed.children.begin() + (config - root.children.data()));
  root = std::move(changed);
  return absl::OkStatus();
}

}  // namespace composer

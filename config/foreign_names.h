// Names and places that Composer's, llm-foundry's and DeepSpeed's files have for what is here: class names, FSDP2, the
// nested keys of a loader, `deepspeed_config`. Each is rewritten without loss or left for the checks to refuse;
// `composer convert` (convert.h) shows the result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "config/node.h"
#include "config/schema.h"

namespace composer {

// Returns the name in the schema that a foreign one stands for: "cosine_annealing_with_warmup" of kind "scheduler" for
// CosineAnnealingWithWarmupScheduler or cosine_with_warmup; "" when there is none, or when the schema has the name
// itself.
std::string OurName(absl::string_view kind, absl::string_view name, const Schema& schema);

// Rewrites a document whose `${…}` are replaced, or one whose are not (then values that refer to others stay as they
// are). kInvalidArgument names the place where a thing is given twice or cannot be read.
absl::Status AcceptForeignNames(const Schema& schema, ConfigNode& root);

// Moves top-level values that are not keys and that `${…}` refers to, or that llm-foundry's files have (max_seq_len,
// tokenizer_name …), into `variables`, where `${max_seq_len}` finds them. A value of that name there stays; a top-level
// value that differs from it stays, too, and is refused by the checks.
void AcceptForeignVariables(const Schema& schema, ConfigNode& root);

// Rewrites models and optimizers whose keys differ, too (foreign_models.cc): resnet_56, hf_causal_lm and hf_bert with
// the folder's place, model.peft_config, decoupled_lionw without decay.
void AcceptForeignModels(ConfigNode& root);

// Replaces `deepspeed_config` by the keys that it stands for (deepspeed.cc). kInvalidArgument lists what has no
// counterpart, with reasons; the key then stays.
absl::Status AcceptDeepSpeed(ConfigNode& root);

// Replaces `fast_dev_run: N` (true: 1; Lightning's) by what trains N batches, evaluates at most N of each data set, and
// begins anew in a run folder of its own, `runs/{run_name}.dev`, with a checkpoint at the end. kInvalidArgument for
// anything but a boolean or a count.
absl::Status AcceptFastDevRun(ConfigNode& root);

// Nodes that a rewriting adds; `from` gives the place.
ConfigNode MadeScalar(const ConfigNode& from, absl::string_view key, absl::string_view value);
ConfigNode MadeMap(const ConfigNode& from, absl::string_view key);

}  // namespace composer

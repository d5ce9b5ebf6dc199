// A module exported from Python by torch.jit.script or torch.jit.trace (module.save("model.pt")), trained here.
//
// Its parameters and tensor attributes keep their names and are trained, saved and loaded like those of any other
// model; parameters that share memory (tied weights) keep the first name. It runs unoptimised, operation by operation
// like Python without torch.jit: the profiling executor would round differently before and after its warm-up, and a
// resumed run could not equal an uninterrupted one.
//
// forward's arguments, by its schema:
//   the first           Tensor: batch.inputs; Dict[str, Tensor]: everything, as "inputs", "targets" and
//                       the names of extra
//   further ones        named targets, target, labels, label or y: batch.targets; any other name: the batch's extra of
//                       that name
//   Optional, default   None or the default when the batch has no such tensor
// It returns a Tensor (the outputs that metrics see), a tuple or list whose first tensor is the outputs, or a Dict[str,
// Tensor] with "outputs" or "logits".
//
// Methods that the module exports (@torch.jit.export) take precedence over the options:
//   loss(outputs, …)    outputs as forward returned them, then arguments like forward's further ones (or a Dict of the
//                       batch). Returns a scalar, a tuple of scalars or a Dict[str, scalar] (model.h, Loss)
//   eval_forward(…)     arguments as forward's; called in evaluation instead of it
// Source of the tasks' losses and metrics: mosaicml composer/models/tasks/classification.py,
// composer/models/huggingface.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/core/metric.h"
#include "trainer/core/model.h"

namespace composer {

// kClassifier has outputs [B, classes]. kLanguageModel has outputs [B, T, vocab] and targets [B, T] already shifted by
// one.
enum class TorchScriptTask { kClassifier, kLanguageModel, kCustom };

// The functions of torch.nn.functional, with the mean over the elements; kCrossEntropy also takes dense targets, and
// counts tokens for kLanguageModel. kModule is the module's own method. kDefault is kModule when there is one, else
// kCrossEntropy; kCustom has no other default.
enum class TorchScriptLoss { kDefault, kModule, kCrossEntropy, kBinaryCrossEntropyWithLogits, kMse, kL1, kNll };

struct TorchScriptOptions {
  using MakeMetrics = std::vector<std::function<std::unique_ptr<Metric>()>>;

  std::string path;
  TorchScriptTask task = TorchScriptTask::kCustom;
  TorchScriptLoss loss = TorchScriptLoss::kDefault;
  int64_t num_classes = 0;  // size of the outputs' class dimension, checked at the first batch; 0 means any
  // When not given, the task decides. kClassifier: MulticlassAccuracy, with CrossEntropy in evaluation; kLanguageModel:
  // LanguageCrossEntropy, with LanguagePerplexity in evaluation; kCustom: none.
  std::optional<MakeMetrics> train_metrics;
  std::optional<MakeMetrics> eval_metrics;
};

// Reads the file. Throws StatusError: kNotFound when there is no file; kInvalidArgument when it is not TorchScript (a
// state_dict or a torch.export program is reported as such), has nothing to train (a frozen module), no forward, an
// argument of an unsupported type, or no loss. forward throws c10::ValueError when the batch lacks a required argument.
std::shared_ptr<Model> LoadTorchScript(const TorchScriptOptions& options);

}  // namespace composer

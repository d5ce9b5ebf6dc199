// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/torchscript.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/jit.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "trainer/core/torch_status.h"
#include "trainer/layers/undeferred_scope.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/models/torchscript_call.h"

namespace composer {
namespace {

[[noreturn]] void Refuse(const std::string& path, absl::string_view why) {
  throw StatusError(absl::InvalidArgumentError(absl::StrCat("torchscript: ", path, ": ", why)));
}

std::string FirstLine(const c10::Error& error) {
  return std::vector<std::string>(absl::StrSplit(error.what_without_backtrace(), absl::MaxSplits('\n', 1)))[0];
}

// Reports what the file is when it is not TorchScript.
void CheckFile(const std::string& path) {
  if (!PathExists(path)) throw StatusError(absl::NotFoundError(absl::StrCat("torchscript: ", path, ": no such file")));
  if (IsDirectory(path)) Refuse(path, "a folder, not a file");
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    if (reader.hasRecord("constants.pkl")) return;
    if (reader.hasRecord("data.pkl"))
      Refuse(path,
             "a torch.save file (a state_dict?), not TorchScript: export with torch.jit.script(module).save(path)");
    Refuse(path, "a zip file, but not TorchScript (a torch.export program?): use torch.jit.script(module).save(path)");
  } catch (const c10::Error& error) {
    Refuse(path, absl::StrCat("not a TorchScript file: ", FirstLine(error)));
  }
}

torch::jit::Module Load(const std::string& path) {
  CheckFile(path);
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const c10::Error& error) {
    Refuse(path, absl::StrCat("cannot be loaded: ", FirstLine(error)));
  }
}

// Presents the tensors of a script module as a tree of modules with the same names. They remain the script module's own
// tensors: the script sees what the optimizer does to them.
class TensorTree {
 public:
  void Adopt(const torch::jit::Module& script, torch::nn::Module& node) {
    if (!modules_.insert(script._ivalue().get()).second) return;
    const auto type = script.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const c10::IValue value = script._ivalue()->getSlot(slot);
      const std::string& name = type->getAttributeName(slot);
      if (type->getAttribute(slot)->is_module()) {
        AdoptChild(name, torch::jit::Module(value.toObject()), node);
      } else if (value.isTensor() && value.toTensor().defined()) {
        AdoptTensor(script._ivalue(), slot, type->is_parameter(slot), node);
      }
    }
  }

  // A script may assign a new tensor to a buffer (`self.mean = …`); that tensor is the buffer from then on.
  void FollowBuffers() {
    for (Buffer& buffer : buffers_) {
      const c10::IValue& now = buffer.object->getSlot(buffer.slot);
      if (!now.isTensor() || now.toTensor().is_same(buffer.in_slot)) continue;
      buffer.in_slot = now.toTensor();
      buffer.registered.set_data(buffer.in_slot.detach());
    }
  }

  // Must be called after the registered buffers have moved to other memory (a GPU).
  void ShareBuffers() {
    for (Buffer& buffer : buffers_) {
      buffer.in_slot = buffer.registered.detach();
      buffer.object->setSlot(buffer.slot, buffer.in_slot);
    }
  }

 private:
  // Two tensors share one memory: the script's may be part of a graph, in which the registered one must not be swapped.
  struct Buffer {
    torch::jit::ModulePtr object;
    size_t slot;
    at::Tensor registered;
    at::Tensor in_slot;
  };
  using Memory = std::tuple<void*, int64_t, std::vector<int64_t>>;

  void AdoptChild(const std::string& name, const torch::jit::Module& child, torch::nn::Module& node) {
    if (modules_.count(child._ivalue().get()) > 0) return;
    Adopt(child, *node.register_module(name, std::make_shared<torch::nn::Module>()));
  }

  void AdoptTensor(const torch::jit::ModulePtr& object, size_t slot, bool is_parameter, torch::nn::Module& node) {
    const at::Tensor tensor = object->getSlot(slot).toTensor();
    const std::string& name = object->type()->getAttributeName(slot);
    if (!is_parameter) {
      node.register_buffer(name, tensor);
      buffers_.push_back({object, slot, tensor, {}});
      return;
    }
    // A saved file records that two parameters share their memory, not that they are one tensor.
    const Memory memory{tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset(), tensor.sizes().vec()};
    if (const auto [it, is_new] = parameters_.emplace(memory, tensor); !is_new) {
      object->setSlot(slot, it->second);
      return;
    }
    node.register_parameter(name, tensor, tensor.requires_grad());
  }

  std::set<const void*> modules_;
  std::map<Memory, at::Tensor> parameters_;
  std::vector<Buffer> buffers_;
};

// Returns a tensor, the tensors of a dict by their names, or the first tensor of a tuple or list.
Outputs OutputsOf(const c10::IValue& returned) {
  if (returned.isTensor()) return returned.toTensor();
  if (returned.isTuple() || returned.isList()) {
    const auto elements = returned.isTuple() ? returned.toTupleRef().elements().vec() : returned.toListRef().vec();
    for (const c10::IValue& element : elements) {
      if (element.isTensor()) return element.toTensor();
    }
  }
  if (returned.isGenericDict()) {
    Outputs::Named named;
    for (const auto& entry : returned.toGenericDict()) {
      if (entry.key().isString() && entry.value().isTensor())
        named.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
    }
    Outputs outputs(std::move(named));
    if (outputs.Has("outputs") || outputs.Has("logits")) return outputs;
  }
  TORCH_CHECK_VALUE(false,
                    "torchscript: forward must return a tensor, a tuple that has one, or a Dict[str, Tensor] with ",
                    "`outputs` or `logits`; it returned ", returned.type()->annotation_str());
}

Loss LossOf(const c10::IValue& returned) {
  if (returned.isTensor()) return returned.toTensor();
  if (returned.isTensorList()) return Loss(returned.toTensorVector());
  if (returned.isTuple()) {
    std::vector<at::Tensor> scalars;
    for (const c10::IValue& element : returned.toTupleRef().elements()) scalars.push_back(element.toTensor());
    return Loss(scalars);
  }
  TORCH_CHECK_VALUE(returned.isGenericDict(),
                    "torchscript: loss must return a scalar, a tuple or a dict of scalars; it returned ",
                    returned.type()->annotation_str());
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& entry : returned.toGenericDict())
    named.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
  return Loss(std::move(named));
}

class TorchScriptModel final : public Model {
 public:
  explicit TorchScriptModel(const TorchScriptOptions& options) : options_(options), script_(Load(options.path)) {
    const auto forward = script_.find_method("forward");
    if (!forward.has_value()) Refuse(options.path, "it has no method forward");
    forward_ = Call(*forward, /*with_outputs=*/false);
    if (const auto eval = script_.find_method("eval_forward")) eval_forward_ = Call(*eval, /*with_outputs=*/false);
    if (const auto loss = script_.find_method("loss")) loss_ = Call(*loss, /*with_outputs=*/true);
    tensors_.Adopt(script_, *this);
    tensors_.ShareBuffers();
    CheckTrainable();
    ChooseLoss();
    ChooseMetrics();
    train(true);
  }

  void train(bool on = true) override {
    torch::nn::Module::train(on);
    script_.train(on);
  }

  void to(at::Device device, at::ScalarType dtype, bool non_blocking = false) override {
    torch::nn::Module::to(device, dtype, non_blocking);
    tensors_.ShareBuffers();
  }
  void to(at::ScalarType dtype, bool non_blocking = false) override {
    torch::nn::Module::to(dtype, non_blocking);
    tensors_.ShareBuffers();
  }
  void to(at::Device device, bool non_blocking = false) override {
    torch::nn::Module::to(device, non_blocking);
    tensors_.ShareBuffers();
  }

  Outputs forward(const Batch& batch) override { return Run(*forward_, batch); }
  Outputs eval_forward(const Batch& batch) override {
    return Run(eval_forward_.has_value() ? *eval_forward_ : *forward_, batch);
  }

  Loss loss(const Outputs& outputs, const Batch& batch) override {
    if (options_.loss != TorchScriptLoss::kModule) return FunctionalLoss(outputs, batch.targets);
    Loss loss = LossOf(loss_->Run(batch, returned_.isNone() ? c10::IValue(outputs.tensor()) : returned_));
    tensors_.FollowBuffers();
    return loss;
  }

  MetricList metrics(bool is_train) const override {
    MetricList metrics;
    for (const auto& make : is_train ? *options_.train_metrics : *options_.eval_metrics) metrics.push_back(make());
    return metrics;
  }

 private:
  std::optional<TorchScriptCall> Call(const torch::jit::Method& method, bool with_outputs) {
    try {
      return TorchScriptCall(method, with_outputs);
    } catch (const StatusError& error) {
      Refuse(options_.path, error.status().message());
    }
  }

  void CheckTrainable() const {
    for (const at::Tensor& parameter : parameters()) {
      if (parameter.requires_grad()) return;
    }
    Refuse(options_.path, "it has no parameter that requires a gradient; was it frozen (torch.jit.freeze)?");
  }

  void ChooseLoss() {
    TorchScriptLoss& loss = options_.loss;
    if (loss == TorchScriptLoss::kModule && !loss_.has_value())
      Refuse(options_.path, "`loss: module`, but it exports no method loss (@torch.jit.export)");
    if (loss != TorchScriptLoss::kDefault) return;
    if (options_.task == TorchScriptTask::kCustom && !loss_.has_value())
      Refuse(options_.path, "a custom task needs `loss`, or a method loss that the module exports (@torch.jit.export)");
    loss = loss_.has_value() ? TorchScriptLoss::kModule : TorchScriptLoss::kCrossEntropy;
  }

  void ChooseMetrics() {
    TorchScriptOptions::MakeMetrics train, eval;
    if (options_.task == TorchScriptTask::kClassifier) {
      train = {MakeMulticlassAccuracy};
      eval = {MakeMulticlassAccuracy, [] { return MakeCrossEntropy(); }};
    } else if (options_.task == TorchScriptTask::kLanguageModel) {
      train = {[] { return MakeLanguageCrossEntropy(); }};
      eval = {[] { return MakeLanguageCrossEntropy(); }, [] { return MakeLanguagePerplexity(); }};
    }
    if (!options_.train_metrics.has_value()) options_.train_metrics = std::move(train);
    if (!options_.eval_metrics.has_value()) options_.eval_metrics = std::move(eval);
  }

  Outputs Run(TorchScriptCall& call, const Batch& batch) {
    returned_ = call.Run(batch);
    tensors_.FollowBuffers();
    Outputs outputs = OutputsOf(returned_);
    if (returned_.isTensor()) returned_ = c10::IValue();  // an algorithm may pass another one to loss
    const bool is_language = options_.task == TorchScriptTask::kLanguageModel;
    TORCH_CHECK_VALUE(options_.num_classes == 0 ||
                          (outputs->dim() >= 2 && outputs->size(is_language ? -1 : 1) == options_.num_classes),
                      "torchscript: num_classes is ", options_.num_classes, ", but the outputs have shape ",
                      outputs->sizes());
    return outputs;
  }

  at::Tensor FunctionalLoss(const at::Tensor& outputs, const at::Tensor& targets) const {
    switch (options_.loss) {
      case TorchScriptLoss::kBinaryCrossEntropyWithLogits:
        return at::binary_cross_entropy_with_logits(outputs, targets.to(outputs.scalar_type()));
      case TorchScriptLoss::kMse:
        return at::mse_loss(outputs, targets.to(outputs.scalar_type()));
      case TorchScriptLoss::kL1:
        return at::l1_loss(outputs, targets.to(outputs.scalar_type()));
      case TorchScriptLoss::kNll:
        return at::nll_loss_nd(outputs, targets);
      default:
        return options_.task == TorchScriptTask::kLanguageModel ? NextTokenCrossEntropy(outputs, targets)
                                                                : SoftCrossEntropy(outputs, targets);
    }
  }

  TorchScriptOptions options_;  // with the choices made
  torch::jit::Module script_;
  TensorTree tensors_;
  std::optional<TorchScriptCall> forward_, eval_forward_, loss_;
  c10::IValue returned_;  // by the last forward when it is more than a tensor
};

}  // namespace

std::shared_ptr<Model> LoadTorchScript(const TorchScriptOptions& options) {
  const UndeferredScope has_memory;  // the file provides the values
  return std::make_shared<TorchScriptModel>(options);
}

}  // namespace composer

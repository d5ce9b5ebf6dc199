// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/torchscript_call.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr absl::string_view kTargetNames[] = {"targets", "target", "labels", "label", "y"};

bool IsTensor(const c10::TypePtr& type) { return type->isSubtypeOf(*c10::TensorType::get()); }
bool IsOptionalTensor(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional != nullptr && IsTensor(optional->getElementType());
}
bool IsTensorDict(const c10::TypePtr& type) {
  const auto dict = type->cast<c10::DictType>();
  return dict != nullptr && dict->getKeyType()->isSubtypeOf(*c10::StringType::get()) && IsTensor(dict->getValueType());
}

c10::IValue WholeBatch(const Batch& batch) {
  c10::Dict<std::string, at::Tensor> all;
  all.insert("inputs", batch.inputs);
  if (batch.targets.defined()) all.insert("targets", batch.targets);
  for (const auto& [name, tensor] : batch.extra) all.insert_or_assign(name, tensor);
  return all;
}

std::string NamesIn(const Batch& batch) {
  std::vector<std::string> names = {"inputs"};
  if (batch.targets.defined()) names.emplace_back("targets");
  for (const auto& [name, tensor] : batch.extra) names.push_back(name);
  return absl::StrJoin(names, ", ");
}

}  // namespace

TorchScriptCall::TorchScriptCall(torch::jit::Method method, bool with_outputs) : method_(std::move(method)) {
  const std::vector<c10::Argument>& schema = method_.function().getSchema().arguments();  // [0] is self
  for (size_t i = 1; i < schema.size(); ++i) {
    if (i == 1 && with_outputs) {
      arguments_.push_back({schema[i].name(), Source::kOutputs, true, {}});
    } else {
      arguments_.push_back(Plan(schema[i], i == 1));
    }
  }
  if (arguments_.empty())
    throw StatusError(absl::InvalidArgumentError(absl::StrCat(method_.name(), " takes no arguments")));
}

TorchScriptCall::Argument TorchScriptCall::Plan(const c10::Argument& argument, bool is_first) const {
  const c10::TypePtr& type = argument.type();
  const bool has_default = argument.default_value().has_value(), optional = IsOptionalTensor(type);
  Argument plan{argument.name(), Source::kExtra, !has_default && !optional,
                argument.default_value().value_or(c10::IValue())};
  if (IsTensorDict(type)) {
    plan.source = Source::kWhole;
  } else if (!IsTensor(type) && !optional) {
    if (!has_default)
      throw StatusError(absl::InvalidArgumentError(
          absl::StrCat("argument `", plan.name, "` of ", method_.name(), " has type ", type->annotation_str(),
                       "; arguments can be Tensor, Optional[Tensor] or Dict[str, Tensor], or have a default")));
    plan.source = Source::kDefault;
  } else if (is_first) {
    plan.source = Source::kInputs;
  } else if (std::find(std::begin(kTargetNames), std::end(kTargetNames), plan.name) != std::end(kTargetNames)) {
    plan.source = Source::kTargets;
  }
  return plan;
}

c10::IValue TorchScriptCall::Value(const Argument& argument, const Batch& batch, const c10::IValue& outputs) const {
  switch (argument.source) {
    case Source::kOutputs:
      return outputs;
    case Source::kInputs:
      return batch.inputs;
    case Source::kWhole:
      return WholeBatch(batch);
    case Source::kTargets:
      if (batch.targets.defined()) return batch.targets;
      break;
    case Source::kExtra:
      if (argument.name == "inputs") return batch.inputs;
      if (const auto it = batch.extra.find(argument.name); it != batch.extra.end()) return it->second;
      break;
    case Source::kDefault:
      break;
  }
  TORCH_CHECK_VALUE(!argument.required, "torchscript: ", method_.name(), " needs `", argument.name,
                    "`, which the batch does not have; it has ", NamesIn(batch));
  return argument.otherwise;
}

c10::IValue TorchScriptCall::Run(const Batch& batch, const c10::IValue& outputs) {
  std::vector<c10::IValue> stack;
  stack.reserve(arguments_.size());
  for (const Argument& argument : arguments_) stack.push_back(Value(argument, batch, outputs));
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  return method_(std::move(stack));
}

}  // namespace composer

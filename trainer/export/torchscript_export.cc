// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/torchscript_export.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/shape_analysis.h>
#include <torch/types.h>

#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "trainer/core/torch_status.h"
#include "trainer/export/traced_model.h"

namespace composer {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
constexpr int64_t kFewSamples = 2, kMoreSamples = 3;

[[noreturn]] void RefuseSamples(const std::string& where) {
  throw StatusError(absl::FailedPreconditionError(
      absl::StrCat("TorchScript: what the model computes depends on the number of samples (at ", where, ")")));
}

bool IsSameConstant(const c10::IValue& a, const c10::IValue& b) {
  if (!a.isTensor() || !b.isTensor()) return a.tagKind() == b.tagKind() && a == b;
  const at::Tensor &one = a.toTensor(), &other = b.toTensor();
  if (!one.defined() || !other.defined()) return one.defined() == other.defined();
  return one.is_same(other) || (one.scalar_type() == other.scalar_type() && one.equal(other));
}

// Makes a graph that was traced with kFewSamples take any number of them.
class AnyNumberOfSamples {
 public:
  explicit AnyNumberOfSamples(Graph& graph) : graph_(graph) {
    const torch::jit::WithInsertPoint first(*graph.nodes().begin());
    samples_ = graph.insert(c10::aten::size, {graph.inputs()[0], 0});
  }

  // `other` is the same constant of a trace with kMoreSamples.
  void Replace(Node* node, const c10::IValue& value, const c10::IValue& other) {
    const torch::jit::WithInsertPoint here(node);
    if (value.isInt() && other.isInt()) {
      node->output()->replaceAllUsesWith(Size(value.toInt(), other.toInt()));
      return;
    }
    if (!value.isIntList() || !other.isIntList() || value.toIntVector().size() != other.toIntVector().size())
      RefuseSamples("a constant");
    std::vector<Value*> sizes;
    for (size_t i = 0; i < value.toIntVector().size(); ++i)
      sizes.push_back(Size(value.toIntVector()[i], other.toIntVector()[i]));
    node->output()->replaceAllUsesWith(graph_.insertNode(graph_.createList(c10::IntType::get(), sizes))->output());
  }

 private:
  Value* Size(int64_t few, int64_t more) {
    const int64_t each = (more - few) / (kMoreSamples - kFewSamples), base = few - each * kFewSamples;
    if (each == 0) return graph_.insertConstant(base);
    Value* const product = each == 1 ? samples_ : graph_.insert(c10::aten::mul, {samples_, each});
    return base == 0 ? product : graph_.insert(c10::aten::add, {product, base});
  }

  Graph& graph_;
  Value* samples_;
};

void OpenSamples(Graph& graph, Graph& other) {
  std::vector<std::pair<Node*, Node*>> pairs;
  auto a = graph.nodes().begin(), b = other.nodes().begin();
  for (; a != graph.nodes().end() && b != other.nodes().end(); ++a, ++b) {
    if ((*a)->kind() != (*b)->kind() || (*a)->outputs().size() != (*b)->outputs().size())
      RefuseSamples((*a)->kind().toQualString());
    if (!(*a)->blocks().empty())
      throw StatusError(absl::UnimplementedError(
          absl::StrCat("TorchScript: the model calls ", (*a)->kind().toQualString(), ", which has branches")));
    pairs.emplace_back(*a, *b);
  }
  if (a != graph.nodes().end() || b != other.nodes().end()) RefuseSamples("its end");
  AnyNumberOfSamples open(graph);
  for (const auto& [node, twin] : pairs) {
    if (node->kind() != c10::prim::Constant) continue;
    const c10::IValue value = *torch::jit::toIValue(node->output()), more = *torch::jit::toIValue(twin->output());
    if (!IsSameConstant(value, more)) open.Replace(node, value, more);
  }
}

// A module that holds tensors by dotted names, in submodules.
class TensorModule {
 public:
  TensorModule() : units_(std::make_shared<torch::jit::CompilationUnit>()), root_(Make("Model")) {}

  void Add(const std::string& name, const at::Tensor& tensor, bool is_buffer) {
    std::vector<std::string> parts = absl::StrSplit(name, '.');
    torch::jit::Module module = root_;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      if (!module.hasattr(parts[i])) module.register_module(parts[i], Make("Part"));
      module = module.attr(parts[i]).toModule();
    }
    module.register_parameter(parts.back(), tensor.detach(), is_buffer);
  }
  torch::jit::Module& root() { return root_; }

 private:
  torch::jit::Module Make(const char* name) {
    torch::jit::Module module(c10::QualifiedName(std::string("__torch__.composer.") + name), units_,
                              /*shouldMangle=*/true);
    module.register_attribute("training", c10::BoolType::get(), false);
    return module;
  }

  std::shared_ptr<torch::jit::CompilationUnit> units_;
  torch::jit::Module root_;
};

// Reads the tensors that have names from `self` instead of the graph.
void ReadFromSelf(Graph& graph, Value* self, const std::map<const void*, std::string>& names) {
  std::vector<Node*> nodes(graph.nodes().begin(), graph.nodes().end());
  std::map<std::string, Value*> known;
  for (Node* node : nodes) {
    if (node->kind() != c10::prim::Constant) continue;
    const c10::IValue value = *torch::jit::toIValue(node->output());
    if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().numel() == 0) continue;
    const auto found = names.find(value.toTensor().const_data_ptr());
    if (found == names.end()) continue;
    const torch::jit::WithInsertPoint first(*graph.nodes().begin());
    Value*& read = known[found->second];
    if (read == nullptr) {
      read = self;
      for (const auto part : absl::StrSplit(found->second, '.')) read = graph.insertGetAttr(read, std::string(part));
    }
    node->output()->replaceAllUsesWith(read);
  }
}

// A function returns one value: several become a dictionary.
void NameOutputs(Graph& graph, const std::vector<std::string>& names) {
  if (names.size() == 1 && names[0] == "outputs") return;
  const torch::jit::WithInsertPoint last(graph.return_node());
  std::vector<Value*> keys, values(graph.outputs().begin(), graph.outputs().end());
  for (const std::string& name : names) keys.push_back(graph.insertConstant(name));
  Node* const dict = graph.insertNode(graph.createDict(c10::StringType::get(), c10::TensorType::get(), keys, values));
  while (!graph.outputs().empty()) graph.eraseOutput(0);
  graph.registerOutput(dict->output());
}

// Throws where the module and the model differ for the first sample alone.
void CheckOneSample(Model& model, const torch::jit::Module& module, const Batch& example,
                    const std::vector<std::string>& inputs) {
  const at::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const Batch one = example.Slice(0, 1);
  const Outputs wanted = model.eval_forward(one);
  model.train(was_training);
  std::vector<c10::IValue> arguments = {one.inputs};
  for (size_t i = 1; i < inputs.size(); ++i) arguments.emplace_back(one.extra.at(inputs[i]));
  c10::IValue found;
  try {
    found = module.get_method("forward")(std::move(arguments));
  } catch (const std::exception&) {  // sizes that no operator accepts
    RefuseSamples("a run with one sample, which fails");
  }
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && at::allclose(a, b.to(a.scalar_type()), 1e-4, 1e-5, /*equal_nan=*/true);
  };
  if (!wanted.is_named()) {
    if (!same(found.toTensor(), wanted.tensor())) RefuseSamples("its values for one sample");
    return;
  }
  const auto by_name = found.toGenericDict();
  for (const auto& [name, tensor] : wanted.named()) {
    if (tensor.defined() && !same(by_name.at(name).toTensor(), tensor)) RefuseSamples(name + " for one sample");
  }
}

std::string MakeFile(Model& model, const Batch& example) {
  const TracedModel traced = TraceModel(model, example.Slice(0, kFewSamples), TraceForm::kAsCalled),
                    other = TraceModel(model, example.Slice(0, kMoreSamples), TraceForm::kAsCalled);
  const std::shared_ptr<Graph>& graph = traced.graph;
  OpenSamples(*graph, *other.graph);
  TensorModule tensors;
  for (const auto& item : model.named_parameters()) tensors.Add(item.key(), item.value(), /*is_buffer=*/false);
  for (const auto& item : model.named_buffers()) tensors.Add(item.key(), item.value(), /*is_buffer=*/true);
  torch::jit::Module& module = tensors.root();
  for (size_t i = 0; i < traced.inputs.size(); ++i) graph->inputs()[i]->setDebugName(traced.inputs[i]);
  Value* const self = graph->insertInput(0, "self")->setType(module._ivalue()->type());
  ReadFromSelf(*graph, self, traced.names);
  NameOutputs(*graph, traced.outputs);
  torch::jit::EraseShapeInformation(graph);
  const c10::QualifiedName name(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, graph));
  CheckOneSample(model, module, example, traced.inputs);
  std::ostringstream file;
  module.save(file);
  return file.str();
}

}  // namespace

absl::StatusOr<std::string> ExportTorchScript(Model& model, const Batch& example) {
  std::string file;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    TORCH_CHECK_VALUE(example.num_samples >= kMoreSamples, "ExportTorchScript: the example needs three samples");
    file = MakeFile(model, example);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return file;
}

}  // namespace composer

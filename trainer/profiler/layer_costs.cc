// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/layer_costs.h"

#include <ATen/SequenceNumber.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/module_call.h"
#include "trainer/profiler/operator_work.h"

namespace composer {
namespace {

using SteadyClock = std::chrono::steady_clock;

// RecordFunction takes plain functions, which find the costs of their thread here.
thread_local LayerCosts* active_costs = nullptr;

std::string OwnerName(const std::string& tensor_name) {
  const size_t dot = tensor_name.rfind('.');
  return dot == std::string::npos ? "" : tensor_name.substr(0, dot);
}

bool UpdatesParameters(absl::string_view name) {
  return absl::StartsWith(name, "aten::_fused_") || absl::StartsWith(name, "aten::_foreach_");
}

}  // namespace

struct LayerCosts::Span final : at::ObserverContext {
  int layer = kUnknown, outer = kUnknown;
  bool backward = false;            // a node of the graph
  int64_t first_node = -1;          // of the graph, that the span made; -1: it was not asked for
  const Operator* works = nullptr;  // an operator whose work counts
  OperatorWork work;
  SteadyClock::time_point begin;
};

LayerCosts::LayerCosts(const torch::nn::Module& model) : names_{"(optimizer)", "(other)"} {
  absl::flat_hash_map<std::string, int> by_name;
  for (const auto& item : model.named_modules()) {
    by_module_[item.value().get()] = by_name[item.key()] = static_cast<int>(names_.size());
    names_.push_back(item.key().empty() ? "(model)" : item.key());
  }
  const auto add = [&](const auto& named_tensors) {
    for (const auto& item : named_tensors) {
      const auto owner = by_name.find(OwnerName(item.key()));
      if (owner != by_name.end()) by_tensor_.try_emplace(item.value().unsafeGetTensorImpl(), owner->second);
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
  forward_.resize(names_.size());
  backward_.resize(names_.size());
  TORCH_CHECK(active_costs == nullptr, "the costs of layers are being measured already");
  active_costs = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(OnStart, OnEnd)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE, at::RecordScope::BACKWARD_FUNCTION}));
}

LayerCosts::~LayerCosts() {
  at::removeCallback(handle_);
  active_costs = nullptr;
}

std::unique_ptr<at::ObserverContext> LayerCosts::OnStart(const at::RecordFunction& record) {
  return active_costs == nullptr ? nullptr : active_costs->Start(record);
}

void LayerCosts::OnEnd(const at::RecordFunction& record, at::ObserverContext* context) {
  if (active_costs != nullptr && context != nullptr) active_costs->End(record, *static_cast<Span*>(context));
}

std::unique_ptr<LayerCosts::Span> LayerCosts::Open(int layer) {
  auto span = std::make_unique<Span>();
  span->outer = layer_;
  span->layer = layer == kUnknown ? layer_ : layer;
  layer_ = span->layer;
  return span;
}

std::unique_ptr<at::ObserverContext> LayerCosts::Start(const at::RecordFunction& record) {
  if (record.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    const auto maker = by_sequence_.find(record.seqNr());
    auto span = Open(maker == by_sequence_.end() ? kOther : maker->second);
    span->backward = true;
    ++backward_depth_;
    return span;
  }
  if (const torch::nn::Module* module = ModuleCall::ModuleOf(record)) {
    const auto found = by_module_.find(module);
    if (found == by_module_.end()) return nullptr;
    auto span = Open(found->second);
    span->first_node = static_cast<int64_t>(at::sequence_number::peek());
    return span;
  }
  return record.scope() == at::RecordScope::FUNCTION && work_depth_ == 0 ? StartOperator(record) : nullptr;
}

std::unique_ptr<at::ObserverContext> LayerCosts::StartOperator(const at::RecordFunction& record) {
  auto name = record.operator_name();
  if (!name.has_value()) {
    // A kernel of our own (kernels/cpu_gelu.cc); others are "autograd::engine::…".
    if (!absl::StartsWith(record.name(), "composer::")) return nullptr;
    name.emplace(record.name(), "");
  }
  const Operator& op = Find(*name);
  const int owner = LayerOf(record.inputs());
  if (op.kind == Kind::kCallsOthers && owner == kUnknown) return nullptr;
  auto span = Open(owner);
  span->first_node = static_cast<int64_t>(at::sequence_number::peek());
  if (op.kind == Kind::kCallsOthers) return span;
  if (layer_ == kUnknown) layer_ = span->layer = UpdatesParameters(name->name) ? kOptimizer : kOther;
  span->works = &op;
  if (op.kind == Kind::kWorks) span->work = WorkOfInputs(name->name, record.inputs(), op.changed);
  ++work_depth_;
  span->begin = SteadyClock::now();
  return span;
}

void LayerCosts::End(const at::RecordFunction& record, Span& span) {
  if (span.works != nullptr) {
    LayerWork& sum = (backward_depth_ > 0 ? backward_ : forward_)[static_cast<size_t>(span.layer)];
    sum.seconds += std::chrono::duration<double>(SteadyClock::now() - span.begin).count();
    if (span.works->kind == Kind::kWorks) AddWorkOfOutputs(record.outputs(), span.work);
    sum.bytes += span.work.bytes;
    (span.work.half ? sum.bf16_flops : sum.fp32_flops) += span.work.flops;
    --work_depth_;
  }
  if (span.backward) --backward_depth_;
  if (span.first_node >= 0 && span.layer >= kFirstLayer) {
    // Nodes that an inner layer made are known already.
    const auto end = static_cast<int64_t>(at::sequence_number::peek());
    for (int64_t node = span.first_node; node < end; ++node) by_sequence_.try_emplace(node, span.layer);
  }
  layer_ = span.outer;
}

int LayerCosts::LayerOf(c10::ArrayRef<const c10::IValue> inputs) const {
  for (const c10::IValue& input : inputs) {
    if (!input.isTensor()) continue;
    const auto found = by_tensor_.find(input.toTensor().unsafeGetTensorImpl());
    if (found != by_tensor_.end()) return found->second;
  }
  return kUnknown;
}

const LayerCosts::Operator& LayerCosts::Find(const c10::OperatorName& name) {
  const std::string key = absl::StrCat(name.name, ".", name.overload_name);
  const auto known = operators_.find(key);
  if (known != operators_.end()) return known->second;
  Operator op{Kind::kWorks, {}};
  if (const auto handle = c10::Dispatcher::singleton().findSchema(name); handle.has_value()) {
    const auto& arguments = handle->schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::AliasInfo* const alias = arguments[i].alias_info();
      // Fused optimizers write gradients only to unscale them, which nobody asks of them here.
      if (alias != nullptr && alias->isWrite() && arguments[i].name() != "grads") op.changed.push_back(i);
    }
    const auto& returns = handle->schema().returns();
    const bool is_view = op.changed.empty() && std::any_of(returns.begin(), returns.end(), [](const c10::Argument& r) {
                           return r.alias_info() != nullptr;
                         });
    if (handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      op.kind = Kind::kCallsOthers;
    } else if (is_view || absl::StrContains(name.name, "::empty") || absl::StrContains(name.name, "::new_empty")) {
      op.kind = Kind::kView;
    }
  }
  return operators_.emplace(key, std::move(op)).first->second;
}

std::vector<LayerWork> LayerCosts::Take() const {
  std::vector<LayerWork> works;
  const auto append = [&](size_t layer, LayerPass pass) {
    const LayerWork& sum = (pass == LayerPass::kBackward ? backward_ : forward_)[layer];
    if (sum.seconds == 0) return;
    LayerWork& work = works.emplace_back(sum);
    work.layer = names_[layer];
    work.pass = pass;
  };
  for (size_t layer = kFirstLayer; layer < names_.size(); ++layer) {
    append(layer, LayerPass::kForward);
    append(layer, LayerPass::kBackward);
  }
  append(kOther, LayerPass::kForward);
  append(kOther, LayerPass::kBackward);
  append(kOptimizer, LayerPass::kUpdate);
  return works;
}

}  // namespace composer

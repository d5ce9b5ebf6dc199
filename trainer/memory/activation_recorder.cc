// SPDX-License-Identifier: Apache-2.0
#include "trainer/memory/activation_recorder.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/module_call.h"

namespace composer {
namespace {

// RecordFunction takes plain functions, which find the recorder of their thread here.
thread_local ActivationRecorder* active_recorder = nullptr;

// Calls visit for each tensor of the values; lists of tensors (an LSTM's weights) are entered.
template <typename Visit>
void ForEachTensor(c10::ArrayRef<const c10::IValue> values, const Visit& visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        if (tensor.defined()) visit(tensor);
      }
    }
  }
}

bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() && a.const_data_ptr() == b.const_data_ptr() &&
         a.const_data_ptr() != nullptr;
}

// Maps "a.b.weight" to "a.b".
std::string OwnerName(const std::string& tensor_name) {
  const size_t dot = tensor_name.rfind('.');
  return dot == std::string::npos ? "" : tensor_name.substr(0, dot);
}

// What is measured must look like the forward's own data, whatever mode the forward is in.
struct MeasuringScope {
  at::NoGradGuard no_grad;
  at::DisableRecordFunctionGuard not_recorded;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

}  // namespace

at::Tensor ActivationStatisticsOf(const at::Tensor& x) {
  const at::Tensor values = x.detach().to(at::kFloat);
  const at::Tensor differences = values - values.mean(-1, /*keepdim=*/true);
  const at::Tensor squares = differences.square();
  const at::Tensor variance = squares.mean(-1);
  const at::Tensor kurtosis = squares.square().mean(-1) / variance.square();
  return at::stack({at::linalg_vector_norm(values, 2, at::IntArrayRef{-1}).mean(), values.mean(), kurtosis.mean(),
                    values.amax(-1).mean()});
}

ModuleIndex::ModuleIndex(const Model& model) {
  absl::flat_hash_map<std::string, const Entry*> by_name;
  for (const auto& item : model.named_modules()) {
    entries_.push_back(std::make_unique<Entry>(Entry{item.key(), item.value()->name()}));
    by_module_[item.value().get()] = entries_.back().get();
    by_name[item.key()] = entries_.back().get();
  }
  const auto add = [&](const auto& named_tensors) {
    for (const auto& item : named_tensors) {
      const at::Tensor& tensor = item.value();
      const auto owner = by_name.find(OwnerName(item.key()));
      if (owner == by_name.end() || !tensor.has_storage() || tensor.numel() == 0) continue;
      const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
      if (begin != 0) by_memory_.try_emplace(begin, begin + tensor.nbytes(), owner->second);
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
}

const ModuleIndex::Entry* ModuleIndex::OwnerOf(const at::Tensor& tensor) const {
  if (!tensor.has_storage() || tensor.numel() == 0) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  const auto after = by_memory_.upper_bound(address);
  if (address == 0 || after == by_memory_.begin()) return nullptr;
  const auto& [end, owner] = std::prev(after)->second;
  return address < end ? owner : nullptr;
}

const ModuleIndex::Entry* ModuleIndex::Find(const torch::nn::Module& module) const {
  const auto found = by_module_.find(&module);
  return found == by_module_.end() ? nullptr : found->second;
}

struct ActivationRecorder::Call final : at::ObserverContext {
  std::string name;
  const ModuleIndex::Entry* operation_of = nullptr;  // null: a module call
};

ActivationRecorder::ActivationRecorder(const ModuleIndex& index, std::vector<std::string> ignore)
    : index_(index), ignore_(std::move(ignore)) {
  TORCH_CHECK(active_recorder == nullptr, "activations are being recorded already");
  active_recorder = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(OnStart, OnEnd)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
}

ActivationRecorder::~ActivationRecorder() {
  at::removeCallback(handle_);
  active_recorder = nullptr;
}

std::unique_ptr<at::ObserverContext> ActivationRecorder::OnStart(const at::RecordFunction& record) {
  return active_recorder == nullptr ? nullptr : active_recorder->Start(record);
}

void ActivationRecorder::OnEnd(const at::RecordFunction& record, at::ObserverContext* context) {
  if (active_recorder != nullptr && context != nullptr)
    active_recorder->End(record, *static_cast<const Call*>(context));
}

std::unique_ptr<at::ObserverContext> ActivationRecorder::Start(const at::RecordFunction& record) {
  if (const torch::nn::Module* module = ModuleCall::ModuleOf(record)) return StartModule(record, *module);
  if (record.scope() != at::RecordScope::FUNCTION || inside_ > 0) return nullptr;
  return StartOperation(record);
}

std::unique_ptr<at::ObserverContext> ActivationRecorder::StartModule(const at::RecordFunction& record,
                                                                     const torch::nn::Module& module) {
  const ModuleIndex::Entry* entry = index_.Find(module);
  if (entry == nullptr || IsIgnored(*entry)) return nullptr;
  auto call = std::make_unique<Call>();
  call->name = NameCall(*entry);
  size_t number = 0;
  ForEachTensor(ModuleCall::InputsOf(record),
                [&](const at::Tensor& input) { Measure(call->name, "_input.", number++, input); });
  return call;
}

std::unique_ptr<at::ObserverContext> ActivationRecorder::StartOperation(const at::RecordFunction& record) {
  const ModuleIndex::Entry* owner = nullptr;
  std::vector<at::Tensor> inputs;
  ForEachTensor(record.inputs(), [&](const at::Tensor& tensor) {
    const ModuleIndex::Entry* its_owner = index_.OwnerOf(tensor);
    if (its_owner == nullptr) {
      inputs.push_back(tensor);
    } else if (owner == nullptr) {
      owner = its_owner;
    }
  });
  // Without another tensor the operation only prepares a parameter (a transposed view, a cast).
  if (owner == nullptr || inputs.empty() || IsIgnored(*owner)) return nullptr;
  bool goes_on = false;
  for (const at::Tensor& input : inputs) goes_on = goes_on || (owner == latest_ && SameMemory(input, latest_output_));
  if (!goes_on) latest_name_ = NameCall(*owner);
  latest_ = owner;
  latest_output_ = at::Tensor();
  for (size_t i = 0; i < inputs.size() && !goes_on; ++i) Measure(latest_name_, "_input.", i, inputs[i]);
  auto call = std::make_unique<Call>();
  call->name = latest_name_;
  call->operation_of = owner;
  ++inside_;
  return call;
}

void ActivationRecorder::End(const at::RecordFunction& record, const Call& call) {
  if (call.operation_of != nullptr) --inside_;
  size_t number = 0;
  ForEachTensor(c10::ArrayRef<const c10::IValue>(record.outputs().data(), record.outputs().size()),
                [&](const at::Tensor& output) {
                  if (call.operation_of != nullptr && number == 0) latest_output_ = output;
                  Measure(call.name, "_output.", number++, output);
                });
}

bool ActivationRecorder::IsIgnored(const ModuleIndex::Entry& module) const {
  for (const std::string& part : ignore_) {
    if (absl::StrContains(module.name, part) || absl::StrContains(module.type, part)) return true;
  }
  return false;
}

std::string ActivationRecorder::NameCall(const ModuleIndex::Entry& module) {
  const int copy = ++calls_[&module];
  const std::string& name = module.name.empty() ? module.type : module.name;
  return copy == 1 ? name : absl::StrCat(name, "#", copy);
}

void ActivationRecorder::Measure(const std::string& module, absl::string_view side, size_t number,
                                 const at::Tensor& value) {
  if (!value.is_floating_point() || value.dim() == 0 || value.numel() == 0) return;
  const MeasuringScope scope;
  Seen seen{module, absl::StrCat(side, number), ActivationStatisticsOf(value)};
  const auto [place, is_new] = places_.try_emplace(absl::StrCat(seen.module, seen.suffix), seen_.size());
  if (is_new) {
    seen_.push_back(std::move(seen));
  } else {
    seen_[place->second] = std::move(seen);
  }
}

std::vector<ActivationRecorder::Record> ActivationRecorder::Take() {
  std::vector<Record> records;
  if (seen_.empty()) return records;
  const MeasuringScope scope;
  std::vector<at::Tensor> statistics;
  // A model may be spread over devices.
  for (const Seen& seen : seen_) statistics.push_back(seen.statistics.to(seen_[0].statistics.device()));
  const at::Tensor numbers = at::stack(statistics).to(at::kCPU);
  const auto rows = numbers.accessor<float, 2>();
  for (size_t i = 0; i < seen_.size(); ++i) {
    const auto row = rows[static_cast<int64_t>(i)];
    records.push_back({seen_[i].module, seen_[i].suffix, {row[0], row[1], row[2], row[3]}});
  }
  seen_.clear(), places_.clear(), calls_.clear();
  latest_ = nullptr;
  latest_output_ = at::Tensor();
  return records;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/deferred_init.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "trainer/core/random.h"
#include "trainer/init/deferred_ops.h"

namespace composer {
namespace {

uint64_t NameHash(const std::string& name) {  // FNV-1a, which is the same everywhere and forever
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

void DeferredInit::Build(const std::function<torch::nn::Module&()>& build) {
  std::vector<at::Tensor> live;
  {
    DeferredOps ops(recording_);
    torch::nn::Module& model = build();
    live = ops.LiveTensors();
    for (const auto& item : model.named_parameters()) params_.emplace_back(item.key(), item.value());
    for (const auto& item : model.named_buffers()) buffers_.emplace_back(item.key(), item.value());
  }
  for (const Tensors* named : {&params_, &buffers_}) {
    for (const auto& [name, tensor] : *named) Name(name, tensor);
  }
  absl::flat_hash_map<const void*, bool> registered;
  for (const Tensors* named : {&params_, &buffers_}) {
    for (const auto& [name, tensor] : *named) registered[tensor.unsafeGetTensorImpl()] = true;
  }
  Tensors others;
  for (const at::Tensor& tensor : live) {
    if (registered.contains(tensor.unsafeGetTensorImpl()) || !IsDeferred(tensor)) continue;
    others.emplace_back(absl::StrCat("(member ", others.size(), ")"), tensor);
    Name(others.back().first, tensor);
  }
  Fill(others);
}

// A draw is named after the first tensor that needs it.
void DeferredInit::Name(const std::string& name, const at::Tensor& tensor) {
  if (!IsDeferred(tensor)) return;
  const uint64_t hash = NameHash(name);
  uint64_t draws = 0;
  for (const size_t op : recording_.SliceOf(OpRecording::KeyOf(tensor))) {
    if (recording_.IsRandom(op) && seeds_.emplace(op, MixSeed(seed_, hash, draws)).second) ++draws;
  }
}

OpRecording::RealStorages DeferredInit::Run(const at::Tensor& tensor) const {
  return recording_.Run(recording_.SliceOf(OpRecording::KeyOf(tensor)), [this](size_t op) { return seeds_.at(op); });
}

at::Tensor DeferredInit::Values(const at::Tensor& tensor) const { return OpRecording::ViewOf(Run(tensor), tensor); }

int64_t DeferredInit::BytesFor(const at::Tensor& tensor) const {
  return recording_.BytesOf(recording_.SliceOf(OpRecording::KeyOf(tensor)));
}

void DeferredInit::Fill(const Tensors& tensors) const {
  OpRecording::RealStorages filled;
  for (const auto& [name, tensor] : tensors) {
    if (!IsDeferred(tensor)) continue;
    const OpRecording::StorageKey key = OpRecording::KeyOf(tensor);
    if (!filled.contains(key)) filled.emplace(key, Run(tensor).at(key));
    ReplaceData(tensor, OpRecording::ViewOf(filled, tensor));
  }
}

void DeferredInit::FillAll() const {
  Tensors all = params_;
  all.insert(all.end(), buffers_.begin(), buffers_.end());
  Fill(all);
}

uint64_t DeferredInit::Fingerprint() const { return MixSeed(seed_, recording_.Fingerprint(), 0); }

}  // namespace composer

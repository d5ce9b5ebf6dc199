// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/outputs.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace composer {

const at::Tensor* Outputs::Find(absl::string_view name) const {
  for (const auto& [key, tensor] : named_) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

void Outputs::Missing(absl::string_view wanted) const {
  const auto name = [](std::string* text, const auto& entry) { absl::StrAppend(text, entry.first); };
  TORCH_CHECK_VALUE(false, "the model's outputs have no `", std::string(wanted), "`; they are ",
                    is_named() ? absl::StrJoin(named_, ", ", name) : "one tensor without a name");
}

const at::Tensor& Outputs::tensor() const {
  if (!is_named()) return tensor_;
  if (named_.size() == 1) return named_[0].second;
  for (const char* name : {"logits", "outputs"}) {
    if (const at::Tensor* found = Find(name)) return *found;
  }
  Missing("logits");
}

const at::Tensor& Outputs::operator[](absl::string_view name) const {
  if (const at::Tensor* found = Find(name)) return *found;
  Missing(name);
}

bool Outputs::Has(absl::string_view name) const { return Find(name) != nullptr; }

template <typename Fn>
Outputs Outputs::Each(const Fn& fn) const {
  if (!is_named()) return tensor_.defined() ? Outputs(fn(tensor_)) : Outputs();
  Named named;
  for (const auto& [name, tensor] : named_) named.emplace_back(name, tensor.defined() ? fn(tensor) : at::Tensor());
  return Outputs(std::move(named));
}

Outputs Outputs::Cat(const std::vector<Outputs>& batches) {
  if (batches.empty()) return {};
  const auto joined = [&](const auto& tensor_of) {
    std::vector<at::Tensor> tensors;
    for (const Outputs& batch : batches) tensors.push_back(tensor_of(batch));
    return at::cat(tensors);
  };
  if (!batches[0].is_named()) return joined([](const Outputs& batch) { return batch.tensor(); });
  Named named;
  for (const auto& [name, tensor] : batches[0].named_)
    named.emplace_back(name, joined([&key = name](const Outputs& batch) { return batch[key]; }));
  return Outputs(std::move(named));
}

Outputs Outputs::Detached() const {
  return Each([](const at::Tensor& tensor) { return tensor.detach(); });
}

Outputs Outputs::To(at::Device device) const {
  return Each([device](const at::Tensor& tensor) { return tensor.to(device); });
}

}  // namespace composer

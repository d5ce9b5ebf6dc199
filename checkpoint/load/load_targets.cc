// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load/load_targets.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cstring>

namespace composer {
namespace {

// Returns whether values can be written one by one at data + index * stride.
bool IsPlainMemory(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.is_conj() || tensor.is_neg()) return false;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) == 0 && tensor.size(d) > 1) return false;
  }
  return true;
}

std::vector<int64_t> InBytes(at::IntArrayRef strides, int64_t element_bytes) {
  std::vector<int64_t> bytes(strides.begin(), strides.end());
  for (int64_t& stride : bytes) stride *= element_bytes;
  return bytes;
}

std::vector<int64_t> ContiguousStrides(at::IntArrayRef shape, int64_t element_bytes) {
  std::vector<int64_t> strides(shape.size());
  for (size_t d = shape.size(); d-- > 0; element_bytes *= shape[d]) strides[d] = element_bytes;
  return strides;
}

// A size known to the compiler becomes a single move.
void CopyBytes(char* target, const char* source, int64_t bytes) {
  if (bytes == 4) {
    std::memcpy(target, source, 4);
  } else if (bytes == 2) {
    std::memcpy(target, source, 2);
  } else if (bytes == 8) {
    std::memcpy(target, source, 8);
  } else {
    std::memcpy(target, source, static_cast<size_t>(bytes));
  }
}

}  // namespace

void LoadTargets::Add(size_t tensor, const at::Tensor& data, absl::Span<const int64_t> offset) {
  if (data.numel() == 0) return;
  Target& target = targets_.emplace_back();
  const auto element_bytes = static_cast<int64_t>(data.element_size());
  target.tensor = data.detach();
  target.staged = !IsPlainMemory(data);
  target.strides =
      target.staged ? ContiguousStrides(data.sizes(), element_bytes) : InBytes(data.strides(), element_bytes);
  target.offset.assign(offset.begin(), offset.end());
  target.offset.resize(static_cast<size_t>(data.dim()), 0);
  if (!target.staged) target.data = static_cast<char*>(data.data_ptr());
  const at::IntArrayRef shape = target.tensor.sizes();
  wanted_.push_back({tensor, {target.offset, {shape.data(), shape.size()}}, target.strides, element_bytes});
}

void LoadTargets::Expect(const LoadPlan& plan) {
  for (const ChunkRead& chunk : plan.chunks) {
    for (size_t i = chunk.first_copy; i < chunk.end_copy; ++i) ++targets_[plan.copies[i].wanted].chunks_left;
  }
}

char* LoadTargets::Data(size_t wanted) {
  Target& target = targets_[wanted];
  if (!target.staged) return target.data;
  const std::lock_guard<std::mutex> lock(target.mutex);
  if (target.data == nullptr) {
    target.staging = at::empty(target.tensor.sizes(), target.tensor.options().device(at::kCPU));
    target.data = static_cast<char*>(target.staging.data_ptr());
  }
  return target.data;
}

void LoadTargets::Copy(const LoadPlan& plan, const ChunkRead& chunk, absl::string_view bytes) {
  const int64_t end = chunk.position + static_cast<int64_t>(bytes.size());
  for (size_t i = chunk.first_copy; i < chunk.end_copy; ++i) {
    char* const target = Data(plan.copies[i].wanted);
    VisitRuns(plan.copies[i].bytes, chunk.position, end, [&](int64_t from, int64_t to, int64_t size) {
      CopyBytes(target + to, bytes.data() + (from - chunk.position), size);
      return false;
    });
  }
}

void LoadTargets::ChunkDone(const LoadPlan& plan, const ChunkRead& chunk) {
  for (size_t i = chunk.first_copy; i < chunk.end_copy; ++i) {
    Target& target = targets_[plan.copies[i].wanted];
    if (--target.chunks_left != 0 || !target.staged) continue;
    const at::NoGradGuard no_grad;
    target.tensor.copy_(target.staging);
    target.staging.reset();
  }
}

}  // namespace composer

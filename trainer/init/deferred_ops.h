// Makes tensors without memory: within the scope, on this thread, what asks for a new tensor gets one of device meta, and
// what is done to such tensors is done to their shapes and recorded. Done by a kernel for all operators at the dispatch
// key that LibTorch keeps for this (c10::DispatchKey::DeferredInit), above autograd.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <vector>

#include "trainer/init/op_recording.h"

namespace composer {

// Operations throw c10::Error for what cannot be done without values: reading through a pointer, a generator of the
// caller's own, a decision on random numbers. A value that does not depend on random numbers is computed when it is asked
// for (`linspace(…)[i].item()`).
class DeferredOps {
 public:
  explicit DeferredOps(OpRecording& recording);
  ~DeferredOps();
  DeferredOps(const DeferredOps&) = delete;
  DeferredOps& operator=(const DeferredOps&) = delete;

  // Those that were made or seen in the scope and still live, a tensor object once; views and temporary ones too.
  std::vector<at::Tensor> LiveTensors() const;
  OpRecording& recording() { return recording_; }

  // The kernel. stack: arguments, replaced by results.
  void Run(const c10::OperatorHandle& op, torch::jit::Stack& stack);

 private:
  void RunDeferred(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  // Results that are no tensors, of real values.
  void RunNow(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  OpRecording& recording_;
  DeferredOps* outer_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> tensors_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

// For what must have memory at once, like a file's tensors: within this scope nothing is deferred.
class UndeferredScope {
 public:
  UndeferredScope() : exclude_(c10::DispatchKey::DeferredInit) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

// The tensor has the data of the other from now on, which may be on another device; it stays the same object, with
// requires_grad as it was. (Tensor::set_data refuses to leave the device meta.)
void ReplaceData(const at::Tensor& tensor, const at::Tensor& data);

}  // namespace composer

// Saved-tensor hooks change how autograd keeps tensors for backward: they are called around every tensor that an
// operation saves.
//
// LibTorch has the hooks (torch::autograd::SavedVariableHooks) but lets only Python set them. The process therefore
// gets an autograd engine of its own that differs from torch's in one way: it asks the scopes below which hooks a
// tensor gets when it is saved. Source: torch/csrc/autograd/{engine.h,saved_variable.h}.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

namespace composer {

// Determines how tensors are saved while a scope with the policy is open.
class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  // Returns the hooks of one tensor that is about to be saved. call_pack_hook gets the tensor, detached, without grad
  // mode; call_unpack_hook returns it when backward needs it, any number of times, on whatever thread runs backward.
  // The hooks are destroyed when the operation's node releases the tensor. Null saves the tensor as torch does.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> MakeHooks() = 0;
};

// Makes the engine above the process's engine. A process that trains on a GPU must call it before its first backward
// (torch starts threads only for the engine of the first one); on a CPU the first scope does it. May be called any
// number of times, from any thread.
void InstallSavedTensorHooks();

// During the scope, operations of this thread save by `policy`, which must outlive the scope; of nested scopes the
// innermost counts. Without any scope the cost is one read of a thread-local per saved tensor.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
};

}  // namespace composer

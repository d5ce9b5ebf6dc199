// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/activations/activation_checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <mutex>
#include <vector>

#include "trainer/parallel/activations/forward_conditions.h"
#include "trainer/parallel/activations/saved_tensors.h"

namespace composer {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;

class CheckpointedCall;

// A Place is where one tensor that the forward saved belongs. It is owned by the hooks at its node of the graph.
struct Place {
  std::shared_ptr<CheckpointedCall> call;
  size_t index;
  at::Tensor value;  // set once the block has run again
  uint32_t version = 0;
};

// Thrown out of the second run when no further tensor is wanted. It is not a std::exception, so that a block's own
// handlers let it pass.
struct AllRecomputed {};

// Restores the values of the block's buffers at the end of the scope. Their version counters do not move, so nodes that
// saved them stay valid.
class KeptBuffers {
 public:
  explicit KeptBuffers(const torch::nn::Module& block) {
    if (!block.is_training()) return;
    buffers_ = block.buffers();
    for (const at::Tensor& buffer : buffers_) values_.push_back(buffer.detach().clone());
  }
  ~KeptBuffers() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].variable_data().copy_(values_[i]);
  }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

 private:
  std::vector<at::Tensor> buffers_, values_;
};

// One call of a block: its inputs and the places of what it saved.
class CheckpointedCall final : public std::enable_shared_from_this<CheckpointedCall> {
 public:
  // The inputs are saved as an operation saves them: by the policy of an enclosing scope, if there is one.
  CheckpointedCall(const std::vector<at::Tensor>& inputs, const BlockWrapper::Inner& inner)
      : inner_(inner), conditions_(inputs.at(0).defined() ? inputs[0].device() : at::kCPU) {
    for (const at::Tensor& input : inputs) {
      inputs_.emplace_back(input, /*is_output=*/false);
      needs_grad_.push_back(input.defined() && input.requires_grad());
    }
  }

  // Called when the forward saves a tensor.
  std::shared_ptr<Place> Add(const at::Tensor& tensor) {
    auto place = std::make_shared<Place>();
    place->call = shared_from_this();
    place->index = saved_.size();
    saved_.push_back({place, at::DimVector(tensor.sizes()), tensor.scalar_type()});
    return place;
  }

  // Called when the forward has saved everything.
  void Close() { is_closed_ = true; }

  // Called when backward wants a tensor. Thread-safe.
  at::Tensor Take(const Place& place) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!place.value.defined()) Recompute();
    TORCH_CHECK(place.value.defined(), "activation checkpointing: block ", inner_.module().name(), " saved ",
                saved_.size(), " tensors in the forward, but number ", place.index,
                " was not saved when it ran again: it must do the same for the same inputs");
    TORCH_CHECK(place.value._version() == place.version, "activation checkpointing: a tensor that block ",
                inner_.module().name(), " saved for backward was changed in place afterwards");
    return place.value;
  }

  // Called when the second run saves its tensor number `index`.
  void Fill(size_t index, const at::Tensor& tensor) {
    TORCH_CHECK(index < saved_.size(), "activation checkpointing: block ", inner_.module().name(), " saved ",
                saved_.size(), " tensors in the forward, but more when it ran again");
    const Saved& saved = saved_[index];
    TORCH_CHECK(tensor.sizes() == at::IntArrayRef(saved.sizes) && tensor.scalar_type() == saved.dtype,
                "activation checkpointing: block ", inner_.module().name(), " saved a ", saved.dtype,
                at::IntArrayRef(saved.sizes), " as its tensor ", index, " in the forward, but a ", tensor.scalar_type(),
                tensor.sizes(), " when it ran again");
    if (const std::shared_ptr<Place> place = saved.place.lock()) {
      place->value = tensor;
      place->version = tensor._version();
      if (--wanted_ == 0) throw AllRecomputed();
    }
  }

 private:
  struct Saved {
    std::weak_ptr<Place> place;  // expires with its node
    at::DimVector sizes;
    at::ScalarType dtype;
  };

  void Recompute();

  BlockWrapper::Inner inner_;
  ForwardConditions conditions_;
  std::vector<SavedVariable> inputs_;
  std::vector<bool> needs_grad_;
  std::vector<Saved> saved_;
  size_t wanted_ = 0;  // the number of places still to be filled
  bool is_closed_ = false;
  std::mutex mutex_;  // backward has a thread for each device
};

class PlaceHooks final : public SavedVariableHooks {
 public:
  explicit PlaceHooks(CheckpointedCall& call) : call_(&call) {}
  void call_pack_hook(const at::Tensor& tensor) override { place_ = call_->Add(tensor); }
  at::Tensor call_unpack_hook() override { return place_->call->Take(*place_); }

 private:
  CheckpointedCall* call_;  // used in the forward; afterwards the place owns the call
  std::shared_ptr<Place> place_;
};

class ForwardPolicy final : public SavedTensorPolicy {
 public:
  explicit ForwardPolicy(CheckpointedCall& call) : call_(call) {}
  std::unique_ptr<SavedVariableHooks> MakeHooks() override { return std::make_unique<PlaceHooks>(call_); }

 private:
  CheckpointedCall& call_;
};

// Puts what the second run saves into the places of the first. The second graph itself may also be asked for tensors,
// by a block that takes gradients within its forward.
class RecomputePolicy final : public SavedTensorPolicy {
 public:
  explicit RecomputePolicy(CheckpointedCall& call) : call_(call) {}
  std::unique_ptr<SavedVariableHooks> MakeHooks() override { return std::make_unique<Hooks>(*this); }

  // Separates the tensors of a run that AllRecomputed has ended from their nodes. A custom function that this exception
  // leaves while it saves its own output would keep itself alive forever: its context holds the output until all is
  // saved, and the output holds its node. Tensors of other nodes, which the block found outside, are never among them.
  void BreakCycles() const {
    for (const at::Tensor& tensor : made_here_) torch::autograd::impl::set_gradient_edge(tensor, {});
  }

 private:
  struct Hooks final : SavedVariableHooks {
    explicit Hooks(RecomputePolicy& the_policy) : policy(the_policy) {}
    // Detached, since an operation that saves its own output (attention) would otherwise keep itself alive forever.
    void call_pack_hook(const at::Tensor& tensor) override {
      kept = tensor.detach();
      if (policy.MadeHere(tensor.grad_fn().get())) policy.made_here_.push_back(tensor);
      policy.call_.Fill(policy.next_++, kept);
    }
    at::Tensor call_unpack_hook() override { return kept; }
    RecomputePolicy& policy;
    at::Tensor kept;
  };

  // Each thread numbers its nodes by itself.
  bool MadeHere(const torch::autograd::Node* node) const {
    return node != nullptr && node->thread_id() == thread_ && node->sequence_nr() >= first_node_;
  }

  CheckpointedCall& call_;
  size_t next_ = 0;
  const uint64_t thread_ = at::RecordFunction::currentThreadId(), first_node_ = at::sequence_number::peek();
  std::vector<at::Tensor> made_here_;  // what the second run has made and saved
};

void CheckpointedCall::Recompute() {
  wanted_ = 0;
  for (const Saved& saved : saved_) wanted_ += saved.place.expired() ? 0 : 1;
  const torch::AutoGradMode grad_mode(true);
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const at::Tensor input = inputs_[i].unpack();
    inputs.push_back(input.defined() ? input.detach().set_requires_grad(needs_grad_[i]) : at::Tensor());
  }
  const ForwardConditionsScope conditions(conditions_);
  const KeptBuffers buffers(inner_.module());
  RecomputePolicy policy(*this);
  const SavedTensorScope scope(policy);
  try {
    inner_(inputs);
  } catch (const AllRecomputed&) {
    policy.BreakCycles();
  }
  if (is_closed_) inputs_.clear();  // otherwise the block takes gradients within its forward, and will save more
}

}  // namespace

at::Tensor ActivationCheckpoint::Run(const std::vector<at::Tensor>& inputs, const Inner& inner) {
  if (!at::GradMode::is_enabled()) return inner(inputs);
  const auto call = std::make_shared<CheckpointedCall>(inputs, inner);
  ForwardPolicy policy(*call);
  const SavedTensorScope scope(policy);
  at::Tensor output = inner(inputs);
  call->Close();
  return output;
}

}  // namespace composer

// This writes what `verbose` says of a run before its first step.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "trainer/optim/model_params.h"
#include "trainer/parallel/fsdp/gradient_accumulator.h"
#include "trainer/parallel_model.h"

namespace composer {
namespace {

int64_t OptimizerBytes(Optimizer& optimizer) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : optimizer.state()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// Returns the memory of a rank that holds the whole model.
PlannedMemory WholeMemory(const torch::nn::Module& model) {
  PlannedMemory memory;
  for (const at::Tensor& param : ParametersOnce(model)) {
    const auto bytes = static_cast<int64_t>(param.nbytes());
    memory.parameters += bytes;
    if (param.requires_grad()) memory.gradients += bytes;
  }
  return memory;
}

}  // namespace

void ParallelModel::LogPlan(const State& state) const {
  if (!logs_plan_) return;
  std::string text;
  const int64_t optimizer_bytes = OptimizerBytes(*state.optimizer);
  if (fsdp_ != nullptr) {
    ShardPlan plan = fsdp_->Plan(optimizer_bytes);
    plan.whole_because = !options_.make_model ? "it was given to the trainer" : constructed_.whole_because;
    if (options_.virtual_shards != 0) plan.partial_sums = GradientAccumulator::NumPartialsFor(planned_.passes);
    plan.step = planned_;
    text = PlanText(plan, options_.fsdp->cpu_offload && !options_.device.is_cpu());
  } else {
    PlannedMemory memory = WholeMemory(*state.model);
    memory.optimizer = optimizer_bytes;
    // The sums are a binary counter (TreeAccumulator), plus the gradients of the current pass besides those being
    // exchanged.
    if (options_.virtual_shards != 0 && planned_.has_dry_run())
      memory.partial_sums = std::bit_width(static_cast<uint64_t>(planned_.passes)) * memory.gradients;
    text = absl::StrCat("not sharded, ", state.identity.world_size, state.identity.world_size == 1 ? " rank" : " ranks",
                        "\n", MemoryText(memory, planned_));
  }
  absl::FPrintF(stderr, "fsdp: %s\n", absl::StripTrailingAsciiWhitespace(text));
}

}  // namespace composer

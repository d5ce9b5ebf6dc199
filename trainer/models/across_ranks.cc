// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/across_ranks.h"

#include <torch/autograd.h>
#include <torch/types.h>

namespace composer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct GatherRowsFunction : torch::autograd::Function<GatherRowsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, Communicator* ranks) {
    context->saved_data["ranks"] = static_cast<int64_t>(reinterpret_cast<intptr_t>(ranks));
    std::vector<int64_t> sizes = rows.sizes().vec();
    sizes.at(0) *= ranks->world_size();
    const at::Tensor all = at::empty(sizes, rows.options());
    ranks->StartAllGather(all, rows.contiguous())->Wait();
    return all;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto* const ranks = reinterpret_cast<Communicator*>(static_cast<intptr_t>(context->saved_data["ranks"].toInt()));
    const at::Tensor all = grads[0].contiguous().clone();  // the sum changes it
    std::vector<int64_t> sizes = all.sizes().vec();
    sizes.at(0) /= ranks->world_size();
    const at::Tensor own = at::empty(sizes, all.options());
    ranks->StartReduceScatterSum(own, all)->Wait();
    return {own, {}};
  }
};

}  // namespace

at::Tensor GatherRows(const at::Tensor& rows, Communicator& ranks) {
  return ranks.world_size() == 1 ? rows : GatherRowsFunction::apply(rows, &ranks);
}

}  // namespace composer

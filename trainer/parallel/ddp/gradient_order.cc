// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/ddp/gradient_order.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <queue>

#include "absl/container/flat_hash_map.h"

namespace composer {
namespace {

using torch::autograd::Node;

// Returns the number of edges that lead to each node below the root.
absl::flat_hash_map<Node*, int> Dependencies(Node* root) {
  absl::flat_hash_map<Node*, int> edges = {{root, 0}};
  std::vector<Node*> open = {root};
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.is_valid() && ++edges[edge.function.get()] == 1) open.push_back(edge.function.get());
    }
  }
  return edges;
}

}  // namespace

std::vector<size_t> GradientOrder(const at::Tensor& loss, const std::vector<at::Tensor>& params) {
  const torch::autograd::Edge root = torch::autograd::impl::gradient_edge(loss);
  if (!root.is_valid()) return {};
  absl::flat_hash_map<const Node*, size_t> param_of;
  std::vector<std::shared_ptr<Node>> accumulators;  // params hold theirs only weakly
  for (size_t i = 0; i < params.size(); ++i) {
    accumulators.push_back(torch::autograd::impl::grad_accumulator(params[i]));
    param_of.emplace(accumulators.back().get(), i);
  }
  absl::flat_hash_map<Node*, int> missing = Dependencies(root.function.get());
  const auto later = [](const Node* a, const Node* b) { return a->sequence_nr() < b->sequence_nr(); };
  std::priority_queue<Node*, std::vector<Node*>, decltype(later)> ready(later);
  ready.push(root.function.get());
  std::vector<size_t> order;
  while (!ready.empty()) {
    Node* node = ready.top();
    ready.pop();
    if (const auto param = param_of.find(node); param != param_of.end()) order.push_back(param->second);
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.is_valid() && --missing[edge.function.get()] == 0) ready.push(edge.function.get());
    }
  }
  return order;
}

}  // namespace composer

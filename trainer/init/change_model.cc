// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/change_model.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

// What a model consists of, to find out what an algorithm changed.
struct Anatomy {
  explicit Anatomy(const Model& model)
      : modules(model.named_modules("", /*include_self=*/false)), params(model.named_parameters()) {}
  torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> modules;
  torch::OrderedDict<std::string, at::Tensor> params;
};

// Returns the first layer or parameter that is new; "" if there is none.
std::string FirstChange(const Anatomy& before, const Anatomy& after) {
  for (const auto& item : after.modules) {
    const auto* old = before.modules.find(item.key());
    if (old == nullptr || *old != item.value()) return item.key();
  }
  for (const auto& item : after.params) {
    const auto* old = before.params.find(item.key());
    if (old == nullptr || !old->is_same(item.value())) return item.key();
  }
  return before.params.size() == after.params.size() ? "" : "(a parameter is gone)";
}

}  // namespace

std::vector<Algorithm*> OrderOfChanges(const std::vector<std::unique_ptr<Algorithm>>& algorithms,
                                       const std::vector<PlacedPass>& placed) {
  std::vector<std::string> names;
  names.reserve(algorithms.size());
  AlgorithmList list;
  for (const auto& algorithm : algorithms) {
    names.push_back(algorithm->name());
    list.push_back({algorithm.get(), names.back(), list.size()});
  }
  for (const AlgorithmPass& pass : WithDefaultPasses(placed)) list = pass(std::move(list), Event::kInit);
  std::vector<Algorithm*> ordered;
  for (const NamedAlgorithm& item : list) ordered.push_back(item.algorithm);
  return ordered;
}

absl::Status ChangeModel(std::shared_ptr<Model>& model, const std::vector<Algorithm*>& algorithms,
                         const ModelContext& context, int tensor_parallel_degree) {
  for (Algorithm* algorithm : algorithms) {
    std::optional<Anatomy> before;
    if (tensor_parallel_degree > 1) before.emplace(*model);
    RETURN_IF_ERROR(Annotate(CatchTorch([&] { return algorithm->ChangeModel(*model, context); }),
                             absl::StrCat("algorithm ", algorithm->name())));
    RETURN_IF_ERROR(CatchTorch([&] { model = algorithm->ReplaceModel(std::move(model)); }));
    if (!before.has_value()) continue;
    if (const std::string layer = FirstChange(*before, Anatomy(*model)); !layer.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "algorithms: ", algorithm->name(), " changes layer ", layer,
          ", and the plan by which tensor_parallel_degree ", tensor_parallel_degree, " splits a ", model->name(),
          " over ranks knows only the model's own layers; leave one of the two out, or give a tp.layer_plan"));
    }
  }
  return absl::OkStatus();
}

std::function<std::shared_ptr<Model>()> WithChanges(std::function<std::shared_ptr<Model>()> make,
                                                    std::vector<Algorithm*> algorithms, const ModelContext& context,
                                                    int tensor_parallel_degree) {
  if (algorithms.empty()) return make;
  return [=, make = std::move(make), algorithms = std::move(algorithms)] {
    std::shared_ptr<Model> model = make();
    ThrowIfError(ChangeModel(model, algorithms, context, tensor_parallel_degree));
    return model;
  };
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/initializers.h"

#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/nearest_name.h"

namespace composer {
namespace {

// Returns the weight of a Linear or Conv2d, undefined for other layers.
at::Tensor MatrixWeight(torch::nn::Module& layer) {
  if (const auto* linear = layer.as<torch::nn::Linear>()) return linear->weight;
  if (const auto* conv = layer.as<torch::nn::Conv2d>()) return conv->weight;
  return {};
}

template <at::Tensor (*fill)(at::Tensor)>
void FillMatrix(torch::nn::Module& layer) {
  if (const at::Tensor weight = MatrixWeight(layer); weight.defined()) fill(weight);
}

at::Tensor KaimingNormal(at::Tensor weight) { return torch::nn::init::kaiming_normal_(std::move(weight)); }
at::Tensor KaimingUniform(at::Tensor weight) { return torch::nn::init::kaiming_uniform_(std::move(weight)); }
at::Tensor XavierNormal(at::Tensor weight) { return torch::nn::init::xavier_normal_(std::move(weight)); }
at::Tensor XavierUniform(at::Tensor weight) { return torch::nn::init::xavier_uniform_(std::move(weight)); }

template <bool uniform>
void BatchNorm(torch::nn::Module& layer) {
  auto* norm = layer.as<torch::nn::BatchNorm2d>();
  if (norm == nullptr || !norm->weight.defined()) return;
  if constexpr (uniform) {
    norm->weight.uniform_();
  } else {
    norm->weight.fill_(1);
  }
  norm->bias.zero_();
}

void LinearLogConstantBias(torch::nn::Module& layer) {
  auto* linear = layer.as<torch::nn::Linear>();
  if (linear == nullptr || !linear->bias.defined()) return;
  linear->bias.fill_(-std::log(static_cast<double>(linear->bias.size(0))));
}

struct InitializerRow {
  const char* name;
  void (*apply)(torch::nn::Module& layer);
};

constexpr InitializerRow kInitializers[] = {
    {"bn_ones", BatchNorm<false>},
    {"bn_uniform", BatchNorm<true>},
    {"kaiming_normal", FillMatrix<KaimingNormal>},
    {"kaiming_uniform", FillMatrix<KaimingUniform>},
    {"linear_log_constant_bias", LinearLogConstantBias},
    {"xavier_normal", FillMatrix<XavierNormal>},
    {"xavier_uniform", FillMatrix<XavierUniform>},
};

}  // namespace

std::vector<std::string> InitializerNames() {
  std::vector<std::string> names;
  for (const InitializerRow& row : kInitializers) names.emplace_back(row.name);
  return names;
}

absl::Status InitializeModel(const std::vector<std::string>& names, torch::nn::Module& model) {
  std::vector<const InitializerRow*> rows;
  for (const std::string& name : names) {
    const auto* row = std::find_if(std::begin(kInitializers), std::end(kInitializers),
                                   [&](const InitializerRow& candidate) { return name == candidate.name; });
    if (row == std::end(kInitializers)) {
      const std::vector<std::string> known = InitializerNames();
      return absl::InvalidArgumentError(absl::StrCat("no initializer is called `", name, "`; there are ",
                                                     absl::StrJoin(known, ", "), DidYouMean(name, known)));
    }
    rows.push_back(row);
  }
  const torch::NoGradGuard no_grad;
  for (const InitializerRow* row : rows) model.apply([row](torch::nn::Module& layer) { row->apply(layer); });
  return absl::OkStatus();
}

}  // namespace composer

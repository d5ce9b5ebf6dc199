// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "trainer/kernels/cpu_batch_norm_planes.h"
#include "trainer/kernels/cpu_batch_norm_rows.h"

namespace composer::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr int64_t kLeastRows = 64, kMostBlocks = 64;  // of sums over rows

bool IsRows(const at::Tensor& x) { return x.is_contiguous(at::MemoryFormat::ChannelsLast) && !x.is_contiguous(); }
at::MemoryFormat FormatOf(const at::Tensor& x) {
  return IsRows(x) ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}
int64_t BlockRows(int64_t rows) { return std::max(kLeastRows, (rows + kMostBlocks - 1) / kMostBlocks); }

template <typename T>
const T* DataOf(const at::Tensor& x) {
  return x.defined() ? static_cast<const T*>(x.const_data_ptr()) : nullptr;
}
template <typename T>
T* WritableDataOf(const at::Tensor& x) {
  return x.defined() ? static_cast<T*>(x.mutable_data_ptr()) : nullptr;
}

// What forward and backward have in common. statistics: [3, channels], mean, variance, rstd.
template <typename T>
BatchNormWork<T> WorkOf(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& statistics) {
  BatchNormWork<T> work{};
  work.x = DataOf<T>(x);
  work.weight = DataOf<float>(weight);
  work.channels = x.size(1);
  const bool rows = IsRows(x);
  work.inner = rows ? 1 : x.size(2) * x.size(3);
  work.outer = x.numel() / (work.channels * work.inner);
  work.block_rows = rows ? BlockRows(work.outer) : 0;
  work.mean = WritableDataOf<float>(statistics);
  work.var = work.mean + work.channels;
  work.rstd = work.var + work.channels;
  return work;
}

template <template <typename> class Pass, typename T>
void RunPass(const BatchNormWork<T>& work) {
  if (work.block_rows == 0) return RunRows<Pass<T>>(work, work.channels, work.outer * work.inner);
  RunRows<Pass<T>>(work, (work.outer + work.block_rows - 1) / work.block_rows, work.block_rows * work.channels);
}

// The sums of blocks of rows: [2, blocks, channels].
template <typename T>
at::Tensor MakeBlockSums(BatchNormWork<T>& work, const at::TensorOptions& options) {
  at::Tensor sums = at::empty({2, (work.outer + work.block_rows - 1) / work.block_rows, work.channels}, options);
  work.first = WritableDataOf<float>(sums);
  work.second = work.first + sums.stride(0);
  return sums;
}

// Of all rows, from those of the blocks. Chan et al. 1979.
template <typename T>
void JoinStatistics(const BatchNormWork<T>& work) {
  for (int64_t channel = 0; channel < work.channels; ++channel) {
    double mean = 0, squares = 0;
    int64_t rows = 0;
    for (int64_t at = channel; rows < work.outer; at += work.channels) {
      const auto fresh = static_cast<double>(std::min(work.block_rows, work.outer - rows));
      const auto before = static_cast<double>(rows);
      const double apart = static_cast<double>(work.first[at]) - mean;
      mean += apart * fresh / (before + fresh);
      squares += static_cast<double>(work.second[at]) + apart * apart * before * fresh / (before + fresh);
      rows += static_cast<int64_t>(fresh);
    }
    work.mean[channel] = static_cast<float>(mean);
    const double var = squares / static_cast<double>(work.outer);
    work.var[channel] = static_cast<float>(var);
    work.rstd[channel] = static_cast<float>(1 / std::sqrt(var + work.eps));
  }
}

// The running statistics as LibTorch's operator changes them: the variance is that of a sample.
void Learn(const BatchNormOf& norm, const at::Tensor& statistics, int64_t count) {
  const auto share = static_cast<float>(norm.momentum);
  const float unbiased = static_cast<float>(count) / static_cast<float>(count - 1);
  const int64_t channels = statistics.size(1);
  const auto* mean = DataOf<float>(statistics);
  for (const auto& [running, batch, factor] :
       {std::tuple(&norm.running_mean, mean, 1.0F), std::tuple(&norm.running_var, mean + channels, unbiased)}) {
    auto* to = WritableDataOf<float>(*running);
    for (int64_t i = 0; i < channels; ++i) to[i] = (1 - share) * to[i] + share * (batch[i] * factor);
    running->unsafeGetTensorImpl()->bump_version();
  }
}

void TakeRunning(const BatchNormOf& norm, const at::Tensor& statistics) {
  const int64_t channels = statistics.size(1);
  auto* mean = WritableDataOf<float>(statistics);
  std::copy_n(DataOf<float>(norm.running_mean), channels, mean);
  std::copy_n(DataOf<float>(norm.running_var), channels, mean + channels);
  for (int64_t i = 0; i < channels; ++i)
    mean[2 * channels + i] = 1 / std::sqrt(mean[channels + i] + static_cast<float>(norm.eps));
}

struct BatchNormResult {
  at::Tensor y, statistics;
};

template <typename T>
BatchNormResult RunForward(const at::Tensor& x, const at::Tensor& shortcut, const BatchNormOf& norm, bool relu) {
  const BatchNormResult result{at::empty_like(x), at::empty({3, x.size(1)}, norm.weight.options())};
  if (!norm.training) TakeRunning(norm, result.statistics);
  BatchNormWork<T> work = WorkOf<T>(x, norm.weight, result.statistics);
  work.shortcut = DataOf<T>(shortcut);
  work.bias = DataOf<float>(norm.bias);
  work.out = WritableDataOf<T>(result.y);
  work.eps = norm.eps;
  work.relu = relu;
  work.training = norm.training;
  if (work.block_rows == 0) {
    RunPass<PlanesForward>(work);
  } else {
    if (norm.training) {
      const at::Tensor sums = MakeBlockSums(work, result.statistics.options());
      RunPass<RowsStatistics>(work);
      JoinStatistics(work);
    }
    RunPass<RowsForward>(work);
  }
  if (norm.training) Learn(norm, result.statistics, work.outer * work.inner);
  return result;
}

struct BatchNormGradients {
  at::Tensor x, shortcut, weight, bias;
};

template <typename T>
void JoinSums(BatchNormWork<T>& work, int64_t blocks, float* of_g, float* of_product) {
  for (int64_t channel = 0; channel < work.channels; ++channel) {
    double sum = 0, product = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      sum += static_cast<double>(work.first[block * work.channels + channel]);
      product += static_cast<double>(work.second[block * work.channels + channel]);
    }
    of_g[channel] = static_cast<float>(sum);
    of_product[channel] = static_cast<float>(product * static_cast<double>(work.rstd[channel]));
  }
  work.first = of_g;
  work.second = of_product;
}

// y: undefined without ReLU.
template <typename T>
BatchNormGradients RunBackward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                               const at::Tensor& statistics, bool has_shortcut) {
  BatchNormGradients result{at::empty_like(x), {}, at::empty_like(weight), at::empty_like(weight)};
  if (has_shortcut) result.shortcut = y.defined() ? at::empty_like(x) : dy;
  BatchNormWork<T> work = WorkOf<T>(x, weight, statistics);
  work.dy = DataOf<T>(dy);
  work.y = DataOf<T>(y);
  work.out = WritableDataOf<T>(result.x);
  work.dshortcut = has_shortcut && y.defined() ? WritableDataOf<T>(result.shortcut) : nullptr;
  if (work.block_rows == 0) {
    work.first = WritableDataOf<float>(result.bias);
    work.second = WritableDataOf<float>(result.weight);
    RunPass<PlanesBackward>(work);
  } else {
    const at::Tensor sums = MakeBlockSums(work, statistics.options());
    RunPass<RowsSums>(work);
    JoinSums(work, sums.size(1), WritableDataOf<float>(result.bias), WritableDataOf<float>(result.weight));
    RunPass<RowsBackward>(work);
  }
  return result;
}

struct BatchNormFunction : torch::autograd::Function<BatchNormFunction> {
  static Variable forward(AutogradContext* ctx, const Variable& given, const std::optional<at::Tensor>& given_shortcut,
                          const Variable& weight, const Variable& bias, const BatchNormOf* norm, bool relu) {
    const at::Tensor x = given.contiguous(FormatOf(given));
    const at::Tensor shortcut = given_shortcut ? given_shortcut->contiguous(FormatOf(x)) : at::Tensor();
    const BatchNormOf of{weight.contiguous(), bias.contiguous(), norm->running_mean, norm->running_var,
                         norm->momentum,      norm->eps,         norm->training};
    const BatchNormResult result = x.scalar_type() == at::kFloat ? RunForward<float>(x, shortcut, of, relu)
                                                                 : RunForward<uint16_t>(x, shortcut, of, relu);
    ctx->save_for_backward({x, weight, bias, result.statistics, relu ? result.y : at::Tensor(), shortcut});
    ctx->saved_data["eps"] = norm->eps;
    return result.y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &statistics = saved[3], &y = saved[4];
    const bool has_shortcut = saved[5].defined();
    BatchNormGradients g;
    if (at::GradMode::is_enabled()) {
      g = ByOperators(grads[0], saved, ctx->saved_data["eps"].toDouble());
    } else {
      const at::Tensor dy = grads[0].to(x.scalar_type()).contiguous(FormatOf(x)), scale = weight.contiguous();
      g = x.scalar_type() == at::kFloat ? RunBackward<float>(dy, x, y, scale, statistics, has_shortcut)
                                        : RunBackward<uint16_t>(dy, x, y, scale, statistics, has_shortcut);
    }
    return {g.x, g.shortcut, g.weight, g.bias, {}, {}};
  }

 private:
  // For a gradient of the gradient.
  static BatchNormGradients ByOperators(const at::Tensor& dy, const variable_list& saved, double eps) {
    const auto leaf = [](const at::Tensor& of) { return of.requires_grad() ? of : of.detach().requires_grad_(); };
    const at::Tensor x = leaf(saved[0]), weight = leaf(saved[1]), bias = leaf(saved[2]);
    at::Tensor y = at::batch_norm(x, weight, bias, {}, {}, /*training=*/true, 0, eps, /*cudnn_enabled=*/false);
    const at::Tensor g = saved[4].defined() ? at::where(saved[4].detach() <= 0, at::zeros({}, dy.options()), dy) : dy;
    const variable_list by = torch::autograd::grad({y}, {x, weight, bias}, {g}, /*retain_graph=*/true,
                                                   /*create_graph=*/true);
    return {by[0], saved[5].defined() ? g : at::Tensor(), by[1], by[2]};
  }
};

}  // namespace

bool TakesCpuBatchNorm(const at::Tensor& x, const at::Tensor& shortcut, const BatchNormOf& norm) {
  const auto fits = [&](const at::Tensor& of) {
    return of.defined() && of.is_cpu() && of.scalar_type() == at::kFloat && of.dim() == 1 && of.size(0) == x.size(1);
  };
  return x.dim() == 4 && x.is_cpu() && x.layout() == at::kStrided &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.numel() > x.size(1) &&
         fits(norm.weight) && fits(norm.bias) && fits(norm.running_mean) && fits(norm.running_var) &&
         norm.running_mean.is_contiguous() && norm.running_var.is_contiguous() &&
         (!shortcut.defined() || (shortcut.is_cpu() && shortcut.layout() == at::kStrided &&
                                  shortcut.sizes() == x.sizes() && shortcut.scalar_type() == x.scalar_type())) &&
         (norm.training || !at::GradMode::is_enabled()) && !at::tracer::impl::is_dispatch_enabled();
}

at::Tensor CpuBatchNorm(const at::Tensor& x, const at::Tensor& shortcut, const BatchNormOf& norm, bool relu) {
  return BatchNormFunction::apply(x, shortcut.defined() ? std::optional(shortcut) : std::nullopt, norm.weight,
                                  norm.bias, &norm, relu);
}

}  // namespace composer::kernels

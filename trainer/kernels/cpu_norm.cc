// SPDX-License-Identifier: Apache-2.0
#include "trainer/kernels/cpu_norm.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "trainer/kernels/cpu_autocast.h"
#include "trainer/kernels/cpu_vector.h"

namespace composer::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

constexpr int64_t kLeastRows = 16, kMostBlocks = 32;  // of backward's sums over rows

struct NormRows {
  const float* x;      // the sum, if there is no branch, and in backward
  const void* branch;  // null: none
  const float *weight, *bias;
  int64_t width;
  float eps;
  bool centred;
  float *sum, *mean, *rstd;  // forward writes sum if there is a branch
  uint16_t* y;
  // backward:
  const uint16_t* dy;
  const float* dsum;  // null: none
  float* dx;
  uint16_t* dbranch;       // null: not asked for in bfloat16
  float *dweight, *dbias;  // a row a block
  int64_t block_rows, rows;
  int64_t begin, end;
};

// `Branch`: float or uint16_t, a bfloat16.
template <typename Branch>
struct NormForward {
  COMPOSER_INLINE static void Run(const NormRows& rows) {
    const int64_t width = rows.width;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const float* x = rows.x + row * width;
      if (rows.branch != nullptr) x = Add(rows, row);
      float mean = 0;
      if (rows.centred) {
        Floats sum = Floats::All(0);
        for (int64_t i = 0; i < width; i += kLanes) sum = sum + Load(x + i, width - i);
        mean = Sum(sum) / static_cast<float>(width);
      }
      const float rstd = 1 / std::sqrt(Squares(x, width, mean) / static_cast<float>(width) + rows.eps);
      rows.mean[row] = mean;
      rows.rstd[row] = rstd;
      uint16_t* y = rows.y + row * width;
      for (int64_t i = 0; i < width; i += kLanes) {
        const int64_t count = width - i;
        Floats of = (Load(x + i, count) - mean) * rstd * Load(rows.weight + i, count);
        if (rows.bias != nullptr) of = of + Load(rows.bias + i, count);
        Store(of, y + i, count);
      }
    }
  }
  COMPOSER_INLINE static const float* Add(const NormRows& rows, int64_t row) {
    const float* x = rows.x + row * rows.width;
    const Branch* branch = static_cast<const Branch*>(rows.branch) + row * rows.width;
    float* sum = rows.sum + row * rows.width;
    for (int64_t i = 0; i < rows.width; i += kLanes) {
      const int64_t count = rows.width - i;
      Store(Load(x + i, count) + Load(branch + i, count), sum + i, count);
    }
    return sum;
  }
  COMPOSER_INLINE static float Squares(const float* x, int64_t width, float mean) {
    const int64_t whole = width / kLanes * kLanes;
    Floats squares = Floats::All(0);
    for (int64_t i = 0; i < whole; i += kLanes) {
      const Floats from_mean = LoadAll(x + i) - mean;
      squares = squares + from_mean * from_mean;
    }
    float rest = 0;
    for (int64_t i = whole; i < width; ++i) rest += (x[i] - mean) * (x[i] - mean);
    return Sum(squares) + rest;
  }
};

struct CpuNormBackward {
  // Of the blocks begin to end.
  COMPOSER_INLINE static void Run(const NormRows& rows) {
    for (int64_t block = rows.begin; block < rows.end; ++block) {
      const int64_t end = std::min(rows.rows, (block + 1) * rows.block_rows);
      for (int64_t row = block * rows.block_rows; row < end; ++row) OfRow(rows, row, block);
    }
  }
  COMPOSER_INLINE static void OfRow(const NormRows& rows, int64_t row, int64_t block) {
    const int64_t width = rows.width, at = row * width;
    const float *x = rows.x + at, mean = rows.mean[row], rstd = rows.rstd[row];
    const uint16_t* dy = rows.dy + at;
    float *dweight = rows.dweight + block * width,
          *dbias = rows.dbias == nullptr ? nullptr : rows.dbias + block * width;
    Floats sum = Floats::All(0), product = Floats::All(0);
    for (int64_t i = 0; i < width; i += kLanes) {
      const int64_t count = width - i;
      const Floats given = Load(dy + i, count), h = (Load(x + i, count) - mean) * rstd;
      const Floats g = given * Load(rows.weight + i, count);
      sum = sum + g;
      product = product + g * h;
      Store(Load(dweight + i, count) + given * h, dweight + i, count);
      if (dbias != nullptr) Store(Load(dbias + i, count) + given, dbias + i, count);
    }
    const float of_g = rows.centred ? Sum(sum) / static_cast<float>(width) : 0;
    const float of_product = Sum(product) / static_cast<float>(width);
    for (int64_t i = 0; i < width; i += kLanes) {
      const int64_t count = width - i;
      const Floats h = (Load(x + i, count) - mean) * rstd;
      Floats dx = (Load(dy + i, count) * Load(rows.weight + i, count) - of_g - h * of_product) * rstd;
      if (rows.dsum != nullptr) dx = dx + Load(rows.dsum + at + i, count);
      Store(dx, rows.dx + at + i, count);
      if (rows.dbranch != nullptr) Store(dx, rows.dbranch + at + i, count);
    }
  }
};

uint16_t* Bf16Data(at::Tensor& x) { return static_cast<uint16_t*>(x.mutable_data_ptr()); }

struct CpuNormResult {
  at::Tensor sum, y, mean, rstd;
};

// All contiguous but x and branch.
CpuNormResult RunNorm(const at::Tensor& given, const std::optional<at::Tensor>& branch, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, double eps, bool centred) {
  const at::Tensor x = given.contiguous(), scale = weight.contiguous();
  const at::Tensor added = branch ? branch->contiguous() : at::Tensor(),
                   shift = bias ? bias->contiguous() : at::Tensor();
  const int64_t width = x.size(-1), count = width == 0 ? 0 : x.numel() / width;
  CpuNormResult result{branch ? at::empty(x.sizes(), x.options()) : x,
                       at::empty(x.sizes(), x.options().dtype(at::kBFloat16)), at::empty({count}, x.options()),
                       at::empty({count}, x.options())};
  NormRows rows{};
  rows.x = static_cast<const float*>(x.const_data_ptr());
  rows.branch = branch ? added.const_data_ptr() : nullptr;
  rows.weight = static_cast<const float*>(scale.const_data_ptr());
  rows.bias = bias ? static_cast<const float*>(shift.const_data_ptr()) : nullptr;
  rows.width = width;
  rows.eps = static_cast<float>(eps);
  rows.centred = centred;
  rows.sum = branch ? result.sum.mutable_data_ptr<float>() : nullptr;
  rows.mean = result.mean.mutable_data_ptr<float>();
  rows.rstd = result.rstd.mutable_data_ptr<float>();
  rows.y = Bf16Data(result.y);
  const bool narrow = branch && branch->scalar_type() == at::kBFloat16;
  // Without the weights, by which ActivationRecorder would take it for a second call of the layer.
  RECORD_FUNCTION_WITH_INPUTS_OUTPUTS("composer::norm", (std::array<const c10::IValue, 2>{x, added}),
                                      (std::vector<c10::IValue>{result.y, branch ? result.sum : at::Tensor()}));
  narrow ? RunRows<NormForward<uint16_t>>(rows, count, width) : RunRows<NormForward<float>>(rows, count, width);
  return result;
}

struct CpuNormGradients {
  at::Tensor x, branch, weight, bias;
};

CpuNormGradients RunNormBackward(const at::Tensor& given, const at::Tensor& dsum, const CpuNormResult& forward,
                                 const at::Tensor& weight, bool has_bias, bool centred, bool narrow_branch) {
  const at::Tensor x = forward.sum.contiguous(), dy = given.to(at::kBFloat16).contiguous(), scale = weight.contiguous();
  const at::Tensor more = dsum.defined() ? dsum.contiguous() : dsum;
  at::Tensor mean = forward.mean, rstd = forward.rstd;
  const int64_t width = x.size(-1), count = width == 0 ? 0 : x.numel() / width;
  const int64_t block_rows = std::max(kLeastRows, (count + kMostBlocks - 1) / kMostBlocks);
  const int64_t blocks = (count + block_rows - 1) / block_rows;
  at::Tensor sums = at::zeros({has_bias ? 2 : 1, blocks, width}, x.options());
  CpuNormGradients result{at::empty(x.sizes(), x.options()), {}, {}, {}};
  if (narrow_branch) result.branch = at::empty(x.sizes(), dy.options());
  NormRows rows{};
  rows.x = static_cast<const float*>(x.const_data_ptr());
  rows.weight = static_cast<const float*>(scale.const_data_ptr());
  rows.width = width;
  rows.centred = centred;
  rows.mean = mean.mutable_data_ptr<float>();
  rows.rstd = rstd.mutable_data_ptr<float>();
  rows.dy = static_cast<const uint16_t*>(dy.const_data_ptr());
  rows.dsum = more.defined() ? static_cast<const float*>(more.const_data_ptr()) : nullptr;
  rows.dx = result.x.mutable_data_ptr<float>();
  rows.dbranch = narrow_branch ? Bf16Data(result.branch) : nullptr;
  rows.dweight = sums.mutable_data_ptr<float>();
  rows.dbias = has_bias ? rows.dweight + blocks * width : nullptr;
  rows.block_rows = block_rows;
  rows.rows = count;
  RECORD_FUNCTION_WITH_INPUTS_OUTPUTS("composer::norm_backward", (std::array<const c10::IValue, 3>{dy, x, more}),
                                      (std::vector<c10::IValue>{result.x, result.branch}));
  RunRows<CpuNormBackward>(rows, blocks, block_rows * width);
  const at::Tensor totals = sums.sum(1);
  result.weight = totals[0];
  if (has_bias) result.bias = totals[1];
  return result;
}

struct CpuNormFunction : torch::autograd::Function<CpuNormFunction> {
  static variable_list forward(AutogradContext* ctx, const Variable& x, const std::optional<at::Tensor>& branch,
                               const Variable& weight, const std::optional<at::Tensor>& bias, double eps,
                               bool centred) {
    const CpuNormResult result = RunNorm(x, branch, weight, bias, eps, centred);
    ctx->save_for_backward({branch ? result.sum : x, weight, bias ? *bias : at::Tensor(), result.mean, result.rstd});
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["centred"] = centred;
    ctx->saved_data["branch"] = branch.has_value();
    ctx->saved_data["narrow"] = branch && branch->scalar_type() == at::kBFloat16;
    ctx->set_materialize_grads(false);
    return branch ? variable_list{result.y, result.sum} : variable_list{result.y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const bool has_branch = ctx->saved_data["branch"].toBool(), narrow = ctx->saved_data["narrow"].toBool();
    const at::Tensor dsum = has_branch ? grads[1] : at::Tensor();
    CpuNormGradients g{dsum, {}, {}, {}};  // if only the sum has been used
    if (grads[0].defined()) {
      const bool centred = ctx->saved_data["centred"].toBool();
      g = at::GradMode::is_enabled() ? ByOperators(grads[0], dsum, saved, ctx->saved_data["eps"].toDouble(), centred)
                                     : RunNormBackward(grads[0], dsum, {saved[0], {}, saved[3], saved[4]}, saved[1],
                                                       saved[2].defined(), centred, narrow);
    }
    if (has_branch && !g.branch.defined()) g.branch = narrow && g.x.defined() ? g.x.to(at::kBFloat16) : g.x;
    return {g.x, g.branch, g.weight, g.bias, {}, {}};
  }

 private:
  // For a gradient of the gradient.
  static CpuNormGradients ByOperators(const at::Tensor& dy, const at::Tensor& dsum, const variable_list& saved,
                                      double eps, bool centred) {
    const at::Tensor x = saved[0].requires_grad() ? saved[0] : saved[0].detach().requires_grad_();
    const at::Tensor h = centred ? at::layer_norm(x, {x.size(-1)}, {}, {}, eps)
                                 : x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps);
    const at::Tensor wide = dy.to(at::kFloat);
    CpuNormGradients result;
    result.x = torch::autograd::grad({h}, {x}, {wide * saved[1]}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    if (dsum.defined()) result.x = result.x + dsum;
    result.weight = (wide * h).reshape({-1, x.size(-1)}).sum(0);
    if (saved[2].defined()) result.bias = wide.reshape({-1, x.size(-1)}).sum(0);
    return result;
  }
};

std::optional<at::Tensor> OrNothing(const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

}  // namespace

bool TakesCpuNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights) {
  const auto is_float = [&](const at::Tensor& w) { return w.is_cpu() && w.scalar_type() == at::kFloat; };
  return x.dim() >= 1 && x.numel() > 0 && is_float(x) && weights.weight.defined() && is_float(weights.weight) &&
         weights.weight.sizes() == x.sizes().slice(static_cast<size_t>(x.dim() - 1)) &&
         (!weights.bias.defined() || is_float(weights.bias)) &&
         (!branch.defined() || (branch.sizes() == x.sizes() &&
                                (is_float(branch) || (branch.is_cpu() && branch.scalar_type() == at::kBFloat16)))) &&
         CpuAutocastsToBf16();
}

SumAndNorm CpuAddNorm(const at::Tensor& x, const at::Tensor& branch, const NormWeights& weights) {
  const variable_list result = CpuNormFunction::apply(x, OrNothing(branch), weights.weight, OrNothing(weights.bias),
                                                      weights.eps, weights.centred);
  return {branch.defined() ? result[1] : x, result[0]};
}

}  // namespace composer::kernels

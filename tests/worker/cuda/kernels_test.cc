// The kernels' own source, compiled for the host and run thread by thread (tests/support/kernels/execution.h), against
// formulas in double: arithmetic, rounding, and every index, since this program is built with the address sanitizer.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "tests/worker/cuda/kernel_values.h"

namespace composer::device {
namespace {

TEST(Bf16, RoundsToNearestEvenAndKeepsNanAndInfinity) {
  const std::pair<float, uint16_t> cases[] = {
      {1.0F, 0x3F80},    {1.00390625F, 0x3F80}, {1.01171875F, 0x3F82}, {1.0078125F, 0x3F81}, {-2.5F, 0xC020},
      {3.4e38F, 0x7F80}, {INFINITY, 0x7F80},    {-INFINITY, 0xFF80},   {0.0F, 0x0000},       {1e-40F, 0x0001}};
  for (const auto& [x, bits] : cases) EXPECT_EQ(FromFloat<Bf16>(x).bits, bits) << x;
  EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Bf16>(NAN))));
  EXPECT_TRUE(std::isnan(ToFloat(FromFloat<Bf16>(__uint_as_float(0x7F800001)))));  // would round to infinity
}

// ---- AdamW

struct AdamWState {
  Values<float> param, grad, exp_avg, exp_avg_sq;
  Values<Bf16> copy;
  Values<float> step;

  AdamWState(int64_t size, uint64_t seed, int64_t shift, float steps)
      : param(Values<float>::Drawn(size, seed, 0, 1, shift)),
        grad(Values<float>::Drawn(size, seed + 1, 0, 1, shift)),
        exp_avg(Values<float>::Drawn(size, seed + 2, 0, 0.1F, shift)),
        exp_avg_sq(Values<float>::Drawn(size, seed + 3, 0.5F, 0.1F, shift)),
        copy(size, shift),
        step(1) {
    step.data()[0] = steps;
  }
  AdamWTensor table(bool with_copy) const {
    return {param.data(), grad.data(), exp_avg.data(), exp_avg_sq.data(), with_copy ? copy.data() : nullptr,
            step.data(),  param.size()};
  }
};

struct AdamWResult {
  std::vector<double> param, exp_avg, exp_avg_sq;
};

AdamWResult AdamWFormula(const AdamWState& s, const AdamWScalars& k) {
  AdamWResult result;
  const double t = s.step[0];
  for (int64_t i = 0; i < s.param.size(); ++i) {
    const double g = s.grad[i], m = k.beta1 * s.exp_avg[i] + (1 - k.beta1) * g,
                 v = k.beta2 * s.exp_avg_sq[i] + (1 - k.beta2) * g * g;
    const double p = s.param[i] * (1 - k.lr * k.weight_decay);
    result.exp_avg.push_back(m);
    result.exp_avg_sq.push_back(v);
    result.param.push_back(p - k.lr / (1 - std::pow(k.beta1, t)) * m /
                                   (std::sqrt(v) / std::sqrt(1 - std::pow(k.beta2, t)) + k.eps));
  }
  return result;
}

const AdamWScalars kScalars{
    .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1, .eps = 1e-8, .found_inf = nullptr};

TEST(AdamW, ManyTensorsOfAnySizeAreUpdatedByTheFormulaAndCopied) {
  std::vector<std::unique_ptr<AdamWState>> states;
  std::vector<AdamWTensor> tables;
  std::vector<AdamWResult> wanted;
  // More than one launch takes; empty, odd, whole chunks, one more than a chunk.
  const int64_t sizes[] = {1, 3, 4, 5, 0, 1023, 1024, 16384, 16385, 33001};
  for (int i = 0; i < 100; ++i) {
    const int64_t size = i < 10 ? sizes[i] : i % 7 + 1;
    states.push_back(std::make_unique<AdamWState>(size, 100 * i + 7, 0, static_cast<float>(i + 1)));
    tables.push_back(states.back()->table(i % 3 != 0));
    wanted.push_back(AdamWFormula(*states.back(), kScalars));
  }
  LaunchAdamW(tables.data(), static_cast<int64_t>(tables.size()), kScalars, nullptr);
  for (size_t i = 0; i < states.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectNear(states[i]->param, wanted[i].param, 1e-5);
    ExpectNear(states[i]->exp_avg, wanted[i].exp_avg, 1e-6);
    ExpectNear(states[i]->exp_avg_sq, wanted[i].exp_avg_sq, 1e-6);
    if (i % 3 == 0) continue;
    for (int64_t k = 0; k < states[i]->copy.size(); ++k)
      EXPECT_EQ(states[i]->copy.data()[k].bits, FromFloat<Bf16>(static_cast<float>(states[i]->param[k])).bits);
  }
}

TEST(AdamW, UnalignedTensorsTooAndToTheSameBits) {
  const AdamWState aligned(1001, 5, 0, 4), beside(1001, 5, 1, 4);
  for (const AdamWState* state : {&aligned, &beside}) {
    const AdamWTensor table = state->table(true);
    LaunchAdamW(&table, 1, kScalars, nullptr);
  }
  for (int64_t i = 0; i < 1001; ++i) EXPECT_EQ(aligned.param[i], beside.param[i]);
}

TEST(AdamW, AnOverflowLeavesEverything) {
  const AdamWState state(17, 3, 0, 1), before(17, 3, 0, 1);
  Values<float> found(1);
  AdamWScalars scalars = kScalars;
  scalars.found_inf = found.data();
  const AdamWTensor table = state.table(false);
  found.data()[0] = 1;
  LaunchAdamW(&table, 1, scalars, nullptr);
  for (int64_t i = 0; i < 17; ++i) EXPECT_EQ(state.param[i], before.param[i]);
  found.data()[0] = 0;
  LaunchAdamW(&table, 1, scalars, nullptr);
  ExpectNear(state.param, AdamWFormula(before, kScalars).param, 1e-5);
}

// ---- GELU

double GeluOf(double x, bool by_tanh) {
  if (by_tanh) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}
// By a difference: not the kernel's own derivation.
double SlopeOf(double x, bool by_tanh) { return (GeluOf(x + 1e-5, by_tanh) - GeluOf(x - 1e-5, by_tanh)) / 2e-5; }

template <typename T>
void TryGelu(int64_t rows, int64_t width, bool by_tanh, int64_t shift) {
  SCOPED_TRACE(testing::Message() << rows << " x " << width << " tanh " << by_tanh << " shift " << shift);
  const auto x = Values<T>::Drawn(rows * width, 1, 0, 2, shift), bias = Values<T>::Drawn(width, 2, 0, 1, shift),
             dy = Values<T>::Drawn(rows * width, 3, 0, 1, shift);
  const Values<T> y(rows * width, shift), dx(rows * width, shift);
  const Values<float> dbias(GeluParts(rows) * width, shift);
  const GeluCall call{TypeOf<T>(), rows, width, by_tanh, x.data(), bias.data()};
  LaunchBiasGelu(call, y.data(), nullptr);
  LaunchBiasGeluBackward(call, dy.data(), dx.data(), dbias.data(), nullptr);
  std::vector<double> wanted_y, wanted_dx, wanted_dbias(static_cast<size_t>(width));
  for (int64_t i = 0; i < rows * width; ++i) {
    const double at = x[i] + bias[i % width];
    wanted_y.push_back(GeluOf(at, by_tanh));
    wanted_dx.push_back(dy[i] * SlopeOf(at, by_tanh));
    wanted_dbias[static_cast<size_t>(i % width)] += wanted_dx.back();
  }
  ExpectNear(y, wanted_y, Rounding<T>(), 0.5);
  ExpectNear(dx, wanted_dx, Rounding<T>() + 1e-5, 0.5);
  const std::vector<double> sums = SumOfParts(dbias, width);
  for (int64_t i = 0; i < width; ++i)
    ASSERT_NEAR(sums[static_cast<size_t>(i)], wanted_dbias[static_cast<size_t>(i)], 1e-4 * static_cast<double>(rows));
}

TEST(BiasGelu, ForwardAndBackward) {
  for (const bool by_tanh : {false, true}) {
    TryGelu<float>(3, 16, by_tanh, 0);
    if (by_tanh)
      TryGelu<float>(520, 264, by_tanh, 0);  // more rows than all parts take at a time, more columns than a tile
    TryGelu<Bf16>(5, 7, by_tanh, 0);
    TryGelu<Bf16>(9, 257, by_tanh, 0);
    TryGelu<Bf16>(2, 24, by_tanh, 3);
  }
}

// ---- SwiGLU

template <typename T>
void TrySwiGlu(int64_t size, int64_t shift) {
  SCOPED_TRACE(testing::Message() << size << " shift " << shift);
  const auto gate = Values<T>::Drawn(size, 1, 0, 3, shift), up = Values<T>::Drawn(size, 2, 0, 1, shift),
             dy = Values<T>::Drawn(size, 3, 0, 1, shift);
  const Values<T> y(size, shift), dgate(size, shift), dup(size, shift);
  LaunchSwiGlu(TypeOf<T>(), size, gate.data(), up.data(), y.data(), nullptr);
  LaunchSwiGluBackward(TypeOf<T>(), size, dy.data(), gate.data(), up.data(), dgate.data(), dup.data(), nullptr);
  std::vector<double> wanted_y, wanted_dgate, wanted_dup;
  for (int64_t i = 0; i < size; ++i) {
    const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
    wanted_y.push_back(silu(gate[i]) * up[i]);
    wanted_dup.push_back(silu(gate[i]) * dy[i]);
    wanted_dgate.push_back(dy[i] * up[i] * (silu(gate[i] + 1e-5) - silu(gate[i] - 1e-5)) / 2e-5);
  }
  ExpectNear(y, wanted_y, 2 * Rounding<T>(), 0.2);
  ExpectNear(dup, wanted_dup, 2 * Rounding<T>(), 0.2);
  ExpectNear(dgate, wanted_dgate, 2 * Rounding<T>() + 1e-5, 0.2);
}

TEST(SwiGlu, ForwardAndBackward) {
  for (const int64_t size : {1, 8, 2047, 2048, 2056, 6001}) {
    TrySwiGlu<float>(size, 0);
    TrySwiGlu<Bf16>(size, 0);
  }
  TrySwiGlu<Bf16>(16, 1);
}

// ---- rotary positions

template <typename T>
void TryRotation(int64_t width, bool own_tables, bool back) {
  SCOPED_TRACE(testing::Message() << "width " << width << " own tables " << own_tables << " back " << back);
  const int64_t batch = 2, heads = 3, tokens = 5;
  // As attention has them: x [batch, tokens, heads, width], seen as [batch, heads, tokens, width].
  const int64_t size = batch * heads * tokens * width, tables = (own_tables ? batch : 1) * tokens * width;
  const auto x = Values<T>::Drawn(size, 1), cos = Values<T>::Drawn(tables, 2), sin = Values<T>::Drawn(tables, 3);
  const Values<T> y(size);
  Rotation call{TypeOf<T>(), batch, heads, tokens, width, x.data(), cos.data(), sin.data(), y.data(), {}, {}, {}, back};
  const int64_t strides[3] = {tokens * heads * width, width, heads * width};
  const int64_t dense[3] = {tokens * heads * width, tokens * width, width};
  std::copy_n(strides, 3, call.x_strides);
  std::copy_n(dense, 3, call.y_strides);
  call.table_strides[0] = own_tables ? tokens * width : 0;
  call.table_strides[1] = width;
  LaunchRotation(call, nullptr);
  std::vector<double> wanted(static_cast<size_t>(size));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t i = 0; i < width; ++i) {
          const int64_t half = width / 2, other = (i + half) % width;
          const int64_t row = b * strides[0] + h * strides[1] + t * strides[2];
          const int64_t table = b * call.table_strides[0] + t * width;
          const double sign = (i < half) == back ? 1 : -1;
          wanted[static_cast<size_t>(b * dense[0] + h * dense[1] + t * width + i)] =
              x[row + i] * cos[table + i] + sign * x[row + other] * sin[table + (back ? other : i)];
        }
      }
    }
  }
  ExpectNear(y, wanted, Rounding<T>(), 0.5);
}

TEST(Rotary, TurnsBothHalvesInAnyLayout) {
  for (const bool own_tables : {false, true}) {
    for (const bool back : {false, true}) {
      TryRotation<float>(16, own_tables, back);
      TryRotation<Bf16>(32, own_tables, back);
      TryRotation<Bf16>(6, own_tables, back);
    }
  }
}

}  // namespace
}  // namespace composer::device

// Kernels that sum over rows, as kernels_test.cc has the others; and what the order of threads must not change.
// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/cuda/kernel_values.h"

namespace composer::device {
namespace {

// ---- norms

struct NormCase {
  int64_t rows, width;
  bool centred, branch, bias;
  float mean = 0;  // of x
};

template <typename Wide, typename Narrow>
struct NormRun {
  explicit NormRun(const NormCase& c)
      : x(Values<Wide>::Drawn(c.rows * c.width, 1, c.mean)),
        weight(Values<Wide>::Drawn(c.width, 3, 1, 0.5F)),
        bias(Values<Wide>::Drawn(c.width, 4)),
        dsum(Values<Wide>::Drawn(c.rows * c.width, 6)),
        branch(Values<Narrow>::Drawn(c.rows * c.width, 2)),
        dy(Values<Narrow>::Drawn(c.rows * c.width, 5)),
        sum(c.rows * c.width),
        dx(c.rows * c.width),
        y(c.rows * c.width),
        dbranch(c.rows * c.width),
        mean(c.rows),
        rstd(c.rows),
        dweight(NormParts(c.rows) * c.width),
        dbias(NormParts(c.rows) * c.width) {
    const NormShape shape{TypeOf<Wide>(), TypeOf<Narrow>(), c.rows, c.width, c.centred};
    LaunchNorm(shape,
               {x.data(), c.branch ? branch.data() : nullptr, weight.data(), c.bias ? bias.data() : nullptr, kEps,
                sum.data(), y.data(), mean.data(), rstd.data()},
               nullptr);
    LaunchNormBackward(
        shape,
        {dy.data(), c.branch ? dsum.data() : nullptr, c.branch ? sum.data() : x.data(), weight.data(), mean.data(),
         rstd.data(), dx.data(), c.branch ? dbranch.data() : nullptr, dweight.data(), c.bias ? dbias.data() : nullptr},
        nullptr);
  }
  static constexpr double kEps = 1e-5;
  Values<Wide> x, weight, bias, dsum;
  Values<Narrow> branch, dy;
  Values<Wide> sum, dx;
  Values<Narrow> y, dbranch;
  Values<float> mean, rstd, dweight, dbias;
};

template <typename Wide, typename Narrow>
void TryNorm(const NormCase& c) {
  SCOPED_TRACE(testing::Message() << c.rows << " x " << c.width << " centred " << c.centred << " branch " << c.branch
                                  << " bias " << c.bias);
  const NormRun<Wide, Narrow> run(c);
  const auto size = static_cast<size_t>(c.rows * c.width);
  std::vector<double> y(size), dx(size), dweight(static_cast<size_t>(c.width)), dbias(static_cast<size_t>(c.width));
  for (int64_t row = 0; row < c.rows; ++row) {
    const int64_t begin = row * c.width;
    const double n = static_cast<double>(c.width);
    std::vector<double> x(static_cast<size_t>(c.width)), scaled(x.size()), g(x.size());
    double mean = 0, square = 0, mean_g = 0, mean_gx = 0;
    for (int64_t i = 0; i < c.width; ++i) {
      x[i] = c.branch ? run.sum[begin + i] : run.x[begin + i];  // as rounded
      if (c.branch) {
        ASSERT_NEAR(x[i], run.x[begin + i] + run.branch[begin + i], Rounding<Wide>() * std::max(1.0, std::abs(x[i])));
      }
      mean += c.centred ? x[i] / n : 0;
    }
    for (const double value : x) square += (value - mean) * (value - mean) / n;
    const double rstd = 1 / std::sqrt(square + run.kEps);
    for (int64_t i = 0; i < c.width; ++i) {
      scaled[i] = (x[i] - mean) * rstd;
      const double dy = run.dy[begin + i];
      y[begin + i] = scaled[i] * run.weight[i] + (c.bias ? run.bias[i] : 0);
      g[i] = dy * run.weight[i];
      mean_g += c.centred ? g[i] / n : 0;
      mean_gx += g[i] * scaled[i] / n;
      dweight[i] += dy * scaled[i];
      dbias[i] += dy;
    }
    for (int64_t i = 0; i < c.width; ++i)
      dx[begin + i] = rstd * (g[i] - mean_g - scaled[i] * mean_gx) + (c.branch ? run.dsum[begin + i] : 0);
  }
  // The mean of values far from 0 is itself rounded.
  const double wide = Rounding<Wide>() + 1e-5 + 1e-7 * c.mean, narrow = Rounding<Narrow>() + 1e-5 + 1e-7 * c.mean;
  // RMS norm rounds twice, before the weight and after; that product may be several times the result with the bias.
  ExpectNear(run.y, y, narrow + (c.centred ? 0 : wide), c.centred ? 1 : 3);
  ExpectNear(run.dx, dx, wide, 1);
  if (c.branch) ExpectNear(run.dbranch, dx, narrow, 1);
  const std::vector<double> sums = SumOfParts(run.dweight, c.width), bias_sums = SumOfParts(run.dbias, c.width);
  for (size_t i = 0; i < sums.size(); ++i) {
    ASSERT_NEAR(sums[i], dweight[i], 1e-4 * static_cast<double>(c.rows)) << i;
    if (c.bias) {
      ASSERT_NEAR(bias_sums[i], dbias[i], 1e-4 * static_cast<double>(c.rows)) << i;
    }
  }
}

void TryAllTypes(const NormCase& c) {
  TryNorm<float, float>(c);
  TryNorm<Bf16, Bf16>(c);
  TryNorm<float, Bf16>(c);
}

TEST(Norm, OfAnyWidth) {
  for (const bool centred : {false, true}) {
    for (const int64_t width : {1, 7, 8, 264, 1001, 4095}) {
      TryAllTypes({.rows = 2, .width = width, .centred = centred, .branch = true, .bias = centred});
      TryNorm<Bf16, Bf16>({.rows = 2, .width = width, .centred = centred, .branch = false, .bias = false});
    }
    TryAllTypes({.rows = 2, .width = 8192, .centred = centred, .branch = true, .bias = true});
    TryAllTypes({.rows = 2, .width = 5000, .centred = centred, .branch = false, .bias = true});
  }
}

TEST(Norm, OfMoreRowsThanBlocks) {
  TryNorm<float, Bf16>({.rows = 515, .width = 40, .centred = true, .branch = true, .bias = true});
}

// The variance is not the difference of two large numbers.
TEST(Norm, OfValuesFarFromZero) {
  TryNorm<float, float>({.rows = 2, .width = 768, .centred = true, .branch = false, .bias = true, .mean = 300});
}

// ---- cross-entropy

template <typename T>
void TryCrossEntropy(int64_t rows, int64_t classes, float deviation) {
  SCOPED_TRACE(testing::Message() << rows << " x " << classes << " of " << deviation);
  constexpr int64_t kIgnored = -100;
  const auto logits = Values<T>::Drawn(rows * classes, 1, 0, deviation);
  auto gradient = Values<T>::Drawn(rows * classes, 1, 0, deviation);
  const auto dloss = Values<float>::Drawn(rows, 2);
  std::vector<int64_t> targets;
  for (int64_t row = 0; row < rows; ++row) targets.push_back(row % 4 == 3 ? kIgnored : row * 7919 % classes);
  const Values<float> loss(rows), lse(rows);
  const EntropyShape shape{TypeOf<T>(), rows, classes, kIgnored};
  LaunchCrossEntropy(shape, logits.data(), targets.data(), loss.data(), lse.data(), nullptr);
  LaunchCrossEntropyBackward(shape, gradient.data(), targets.data(), lse.data(), dloss.data(), nullptr);
  std::vector<double> wanted_loss, wanted_lse, wanted;
  for (int64_t row = 0; row < rows; ++row) {
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < classes; ++i) largest = std::max(largest, logits[row * classes + i]);
    for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[row * classes + i] - largest);
    const int64_t target = targets[static_cast<size_t>(row)];
    wanted_lse.push_back(largest + std::log(sum));
    wanted_loss.push_back(target == kIgnored ? 0 : wanted_lse.back() - logits[row * classes + target]);
    for (int64_t i = 0; i < classes; ++i) {
      const double share = std::exp(logits[row * classes + i] - wanted_lse.back()) - (i == target ? 1 : 0);
      wanted.push_back(target == kIgnored ? 0 : share * dloss[row]);
    }
  }
  ExpectNear(lse, wanted_lse, 1e-5, 1);
  ExpectNear(loss, wanted_loss, 1e-5, 1);
  ExpectNear(gradient, wanted, Rounding<T>() + 1e-5, 0.01);
}

TEST(CrossEntropy, OfAnyNumberOfClasses) {
  for (const int64_t classes : {1, 10, 257, 4096, 4097, 5000}) {
    TryCrossEntropy<float>(4, classes, 3);
    TryCrossEntropy<Bf16>(4, classes, 3);
  }
  TryCrossEntropy<float>(2, 50257, 30);  // exp overflows without the largest
}

TEST(CrossEntropy, ATargetThatIsNoClassGivesNan) {
  const auto logits = Values<float>::Drawn(16, 1);
  const Values<float> loss(2), lse(2);
  const int64_t targets[] = {8, -1};
  LaunchCrossEntropy({Type::kFloat, 2, 8, -100}, logits.data(), targets, loss.data(), lse.data(), nullptr);
  EXPECT_TRUE(std::isnan(loss[0]));
  EXPECT_TRUE(std::isnan(loss[1]));
}

TEST(CrossEntropy, LogitsOfMinusInfinityHaveNoShare) {
  auto logits = Values<float>::Drawn(5000, 1);
  for (int64_t i = 0; i < 5000; ++i) {
    if (i != 17 && i != 4321) logits.data()[i] = -INFINITY;
  }
  const Values<float> loss(1), lse(1);
  const int64_t target = 4321;
  LaunchCrossEntropy({Type::kFloat, 1, 5000, -100}, logits.data(), &target, loss.data(), lse.data(), nullptr);
  EXPECT_NEAR(loss[0], std::log1p(std::exp(logits[17] - logits[4321])), 1e-6);
}

// ---- threads

// Whatever the threads' order between two waits, the bits are the same: no thread reads what another has not yet
// written, or what it has already overwritten.
TEST(Threads, TheirOrderChangesNoBit) {
  const NormCase of_many_warps{.rows = 5, .width = 2048, .centred = true, .branch = true, .bias = true};
  const auto run = [&] { return NormRun<float, Bf16>(of_many_warps); };
  const auto loss_of = [] {
    const auto logits = Values<float>::Drawn(3 * 5000, 1);
    const int64_t targets[] = {1, 2, 4999};
    Values<float> loss(3), lse(3);
    LaunchCrossEntropy({Type::kFloat, 3, 5000, -100}, logits.data(), targets, loss.data(), lse.data(), nullptr);
    return loss;
  };
  execution::SetOrder(0);
  const auto first = run();
  const auto first_loss = loss_of();
  for (const uint64_t seed : {1, 2, 3}) {
    execution::SetOrder(seed);
    const auto again = run();
    for (int64_t i = 0; i < first.y.size(); ++i) {
      ASSERT_EQ(first.y[i], again.y[i]) << seed;
      ASSERT_EQ(first.dx[i], again.dx[i]) << seed;
    }
    for (int64_t i = 0; i < first.dweight.size(); ++i) ASSERT_EQ(first.dweight[i], again.dweight[i]) << seed;
    const auto again_loss = loss_of();
    for (int64_t i = 0; i < 3; ++i) ASSERT_EQ(first_loss[i], again_loss[i]) << seed;
  }
  execution::SetOrder(0);
}

// The machine itself: without a wait, an order of the threads shows a value that has not been written yet.
TEST(Threads, AMissingWaitIsSeen) {
  const auto sum_of = [](bool waits) {
    static float shared[64];
    static float seen = 0;
    seen = 0;
    std::fill(std::begin(shared), std::end(shared), 0.0F);
    execution::RunGrid(dim3(1), dim3(64), [waits] {
      shared[threadIdx.x] = 1;
      if (waits) __syncthreads();
      if (threadIdx.x == 0) {
        for (const float value : shared) seen += value;
      }
    });
    return seen;
  };
  execution::SetOrder(5);
  EXPECT_EQ(sum_of(true), 64);
  EXPECT_LT(sum_of(false), 64);
  execution::SetOrder(0);
}

TEST(ThreadsDeathTest, AWaitThatSomeNeverReachEnds) {
  EXPECT_DEATH(execution::RunGrid(dim3(1), dim3(64),
                                  [] {
                                    if (threadIdx.x < 5) __shfl_xor_sync(0xFFFFFFFFU, 1, 1);
                                  }),
               "threads wait for others that have ended");
}

}  // namespace
}  // namespace composer::device

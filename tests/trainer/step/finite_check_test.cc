// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/finite_check.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace composer {
namespace {

bool IsFinite(const at::Tensor& tensor) {
  FiniteCheck check;
  check.Add(tensor);
  const at::Tensor slot = torch::zeros({1});
  check.WriteTo(slot);
  EXPECT_EQ(slot.item<float>() == 0, check.finite());
  return check.finite();
}

TEST(FiniteCheck, EveryPlaceOfEveryType) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const double largest = dtype == at::kHalf ? 65504 : dtype == at::kDouble ? 1.7e308 : 3.3e38;
    const double smallest = dtype == at::kHalf ? 6e-8 : dtype == at::kDouble ? 5e-324 : 1e-40;
    for (int64_t i = 0; i < 37; ++i) {
      at::Tensor values = torch::randn({37}, at::kFloat).to(dtype);
      for (const double fine : {largest, -largest, smallest, -smallest, 0.0, -0.0}) {
        values[i] = fine;
        EXPECT_TRUE(IsFinite(values)) << dtype << " " << fine;
      }
      for (const double bad :
           {static_cast<double>(INFINITY), -static_cast<double>(INFINITY), std::nan(""), -std::nan("")}) {
        values[i] = bad;
        EXPECT_FALSE(IsFinite(values)) << dtype << " " << bad << " at " << i;
      }
    }
  }
}

TEST(FiniteCheck, ViewsTransposedOverlappingAndEmpty) {
  at::Tensor values = torch::zeros({4, 6});
  values[2][5] = NAN;
  EXPECT_FALSE(IsFinite(values.t()));
  EXPECT_FALSE(IsFinite(values.slice(1, 1, 6, 2)));
  EXPECT_TRUE(IsFinite(values.slice(1, 0, 5)));
  EXPECT_FALSE(IsFinite(values[2][5].expand({3, 3})));
  EXPECT_TRUE(IsFinite(torch::empty({0})));
  EXPECT_TRUE(IsFinite(at::Tensor()));
}

TEST(FiniteCheck, RemembersUntilItIsReset) {
  FiniteCheck check;
  check.Add({torch::ones({3}), at::Tensor(), torch::full({2}, INFINITY)});
  check.Add(torch::ones({3}));
  EXPECT_FALSE(check.finite());
  check.Reset();
  check.Add(torch::ones({3}));
  EXPECT_TRUE(check.finite());
}

}  // namespace
}  // namespace composer

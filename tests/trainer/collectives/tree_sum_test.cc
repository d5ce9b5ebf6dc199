// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/tree_sum.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "trainer/collectives/collective_call.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

template <typename T>
T SumOf(c10::ScalarType dtype, const std::vector<T>& terms) {
  std::vector<const void*> parts;
  for (size_t i = 0; i < terms.size(); ++i) parts.push_back(terms.data() + i);
  T out{};
  TreeSum(dtype, parts, &out, 1);
  return out;
}

// Each addition rounds, so another order gives another sum.
TEST(TreeSum, PairsFirstThenPairsOfPairs) {
  const std::vector<double> x = {1e16, 1.0, -1e16, 3.0, 1e8, 7.0, -1e8, 1e-9, 5.0};
  const auto sum = [&](size_t n) {
    return SumOf<double>(c10::ScalarType::Double, {x.begin(), x.begin() + static_cast<long>(n)});
  };
  const double four = (x[0] + x[1]) + (x[2] + x[3]);
  EXPECT_EQ(sum(1), x[0]);
  EXPECT_EQ(sum(2), x[0] + x[1]);
  EXPECT_EQ(sum(3), (x[0] + x[1]) + x[2]);
  EXPECT_EQ(sum(4), four);
  EXPECT_EQ(sum(5), four + x[4]);
  EXPECT_EQ(sum(6), four + (x[4] + x[5]));
  EXPECT_EQ(sum(7), four + ((x[4] + x[5]) + x[6]));
  EXPECT_EQ(sum(8), four + ((x[4] + x[5]) + (x[6] + x[7])));
  EXPECT_EQ(sum(9), (four + ((x[4] + x[5]) + (x[6] + x[7]))) + x[8]);
  EXPECT_NE(sum(4), ((x[0] + x[1]) + x[2]) + x[3]) << "the terms do not tell the orders apart";
}

// There is one rounding at the end: 256 + 1 + 1 is 258 in bfloat16, but 256 if each addition is rounded.
TEST(TreeSum, HalfPrecisionIsSummedInFloat) {
  EXPECT_EQ(static_cast<float>(SumOf<c10::BFloat16>(c10::ScalarType::BFloat16, {256.0F, 1.0F, 1.0F, 0.0F})), 258.0F);
}

TEST(TreeSum, IntegersWrapAndBoolsAreOr) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(SumOf<int32_t>(c10::ScalarType::Int, {kMax, 1}), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(SumOf<uint8_t>(c10::ScalarType::Byte, {200, 100, 1}), 45);
  const bool yes = true, no = false;
  bool out = false;
  TreeSum(c10::ScalarType::Bool, {&yes, &yes, &no}, &out, 1);
  EXPECT_TRUE(out);
}

TEST(TreeSum, ManyElementsAndOutOverATerm) {
  std::vector<float> a(5000), b(5000), c(5000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 0.1F * static_cast<float>(i), b[i] = 1e4F, c[i] = -1e4F;
  std::vector<float> wanted(a.size());
  for (size_t i = 0; i < a.size(); ++i) wanted[i] = (a[i] + b[i]) + c[i];
  TreeSum(c10::ScalarType::Float, {a.data(), b.data(), c.data()}, c.data(), 5000);
  EXPECT_EQ(c, wanted);
}

TEST(TreeSum, RefusesDtypesWithoutASum) {
  float x[2] = {};
  EXPECT_THROW(TreeSum(c10::ScalarType::ComplexFloat, {x}, x, 1), c10::ValueError);
}

TEST(CollectiveCall, GoesThroughItsWords) {
  const CollectiveCall call{CollectiveKind::kBroadcast, c10::ScalarType::BFloat16, 4095, int64_t{1} << 40, 77, 65535};
  EXPECT_EQ(CollectiveCall::Decode(call.Encode()), call);
  EXPECT_EQ(call.ToString(), "broadcast number 77 (BFloat16, 1099511627776 elements from rank 4095 of unit 65535)");
  EXPECT_EQ(CollectiveCall::Decode({~uint64_t{0}, 1, 2}).ToString(), "no collective yet");
  EXPECT_EQ(CollectiveCall::Decode({0xff02, 1, 2}).kind, CollectiveKind::kNone) << "a dtype that does not exist";
}

TEST(CollectiveCall, ADifferenceListsAllRanks) {
  const CollectiveCall reduce{CollectiveKind::kAllReduce, c10::ScalarType::Float, 0, 4, 9};
  CollectiveCall longer = reduce;
  longer.numel = 5;
  CheckSameCall({reduce, reduce});
  const absl::Status status = CatchTorch([&] { CheckSameCall({reduce, longer}); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(
      status.message(),
      "the ranks are not in the same collective, they have gone different ways before it: rank 0: all-reduce number "
      "9 (Float, 4 elements); rank 1: all-reduce number 9 (Float, 5 elements)");
}

}  // namespace
}  // namespace composer

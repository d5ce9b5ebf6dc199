// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

namespace composer {
namespace {

using testing::ElementsAre;

TEST(DiffStates, TensorsBitByBit) {
  StateDict a, b;
  const float nan = std::nanf("");
  a.tensors = {{"same", torch::tensor({1.F, nan})}, {"value", torch::tensor({1.F, 2.F, 3.F})},
               {"type", torch::zeros({2})},         {"gone", torch::zeros({1})},
               {"sign", torch::tensor({0.F})},      {"flag", torch::tensor({true, false})}};
  b.tensors = {{"new", torch::zeros({1})},
               {"same", torch::tensor({1.F, nan})},
               {"value", torch::tensor({1.F, 2.5F, 2.75F})},
               {"type", torch::zeros({2}, at::kHalf)},
               {"sign", torch::tensor({-0.F})},
               {"flag", torch::tensor({true, true})}};
  EXPECT_THAT(DiffStates(a, b),
              ElementsAre("tensor value: 2 of 3 values differ, by 0.5 at most", "tensor type: F32[2] against F16[2]",
                          "tensor gone: only in the first", "tensor sign: 1 of 1 values differ, by 0 at most",
                          "tensor flag: 1 of 2 values differ, by 1 at most", "tensor new: only in the second"));
  EXPECT_THAT(DiffStates(a, a), ElementsAre());
}

TEST(DiffStates, SmallStateValueByValueWithoutRunIdentity) {
  StateDict a, b;
  a.small = {{"timestamp", R"({"batch":1,"total_wct":1.5,"epoch":{"n":1,"epoch_wct":{"x":1}}})"},
             {"run_name", "\"a\""},
             {"rng", "[1,2]"},
             {"only_a", "1"}};
  b.small = {{"timestamp", R"({"batch":2,"total_wct":9.5,"epoch":{"n":1}})"},
             {"run_name", "\"b\""},
             {"rng", "[1,3]"},
             {"only_b", "1"}};
  EXPECT_THAT(DiffStates(a, b), ElementsAre("state only_a: only in the first", "state rng: [1,2] against [1,3]",
                                            "state timestamp.batch: 1 against 2", "state only_b: only in the second"));
  b.small = a.small;
  b.small["run_name"] = "\"other\"";
  EXPECT_THAT(DiffStates(a, b), ElementsAre());
}

}  // namespace
}  // namespace composer

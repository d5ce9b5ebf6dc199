// What the Python package diffusers computes: tests/golden/diffusion (tools/make_diffusion_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "checkpoint/tools/weight_files.h"
#include "trainer/core/dataset.h"
#include "trainer/layers/undeferred_scope.h"

namespace composer {

using GoldenTensors = std::map<std::string, at::Tensor>;

// `name` is below tests/golden/diffusion.
inline GoldenTensors ReadDiffusionGolden(const std::string& name) {
  const UndeferredScope files;
  const auto read = ReadWeights("tests/golden/diffusion/" + name, "");
  EXPECT_TRUE(read.ok()) << read.status();
  return {read->tensors.begin(), read->tensors.end()};
}

// |a - b| / |b|.
inline double RelativeDistance(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return ((x - y).norm() / y.norm()).item<double>();
}

// Numbers of -1 to 1 that follow from their places.
inline at::Tensor Filled(const std::vector<int64_t>& shape, int64_t factor) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return ((torch::arange(count, torch::kLong) * factor).remainder(1009).to(torch::kFloat) / 504 - 1).view(shape);
}

// Compares the gradients of all parameters that have one with golden["grad/NAME"].
inline void ExpectGoldenGradients(const torch::nn::Module& model, GoldenTensors& golden) {
  double largest = 0;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) largest = std::max(largest, golden["grad/" + item.key()].norm().item<double>());
  }
  size_t compared = 0, count = 0;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const at::Tensor& expected = golden["grad/" + item.key()];
    ASSERT_TRUE(expected.defined()) << item.key();
    ++count;
    // A gradient that is zero but for rounding has no relative difference.
    if (expected.norm().item<double>() < 1e-6 * largest) {
      EXPECT_LT(item.value().grad().norm().item<double>(), 3e-6 * largest) << item.key();
    } else {
      EXPECT_LE(RelativeDistance(item.value().grad(), expected), 1e-4) << item.key();
      ++compared;
    }
  }
  EXPECT_GT(compared, count * 9 / 10);
}

// FNV-1a of the sorted lines "NAME 64x3x7x7".
inline std::string NamesDigest(const torch::nn::Module& model) {
  std::vector<std::string> lines;
  for (const auto& item : model.named_parameters())
    lines.push_back(absl::StrCat(item.key(), " ", absl::StrJoin(item.value().sizes(), "x"), "\n"));
  std::sort(lines.begin(), lines.end());
  uint64_t value = 0xcbf29ce484222325ULL;
  for (const char c : absl::StrJoin(lines, "")) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return absl::StrCat(absl::Hex(value, absl::kZeroPad16));
}

inline int64_t ParametersOf(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const at::Tensor& param : model.parameters()) count += param.numel();
  return count;
}

inline std::string ValueErrorOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

// The samples of a batch, again and again.
class RepeatedSamples final : public Dataset {
 public:
  explicit RepeatedSamples(Batch batch) : batch_(std::move(batch)) {}
  int64_t size() const override { return 24; }
  Batch Load(absl::Span<const int64_t> indices) const override {
    std::vector<int64_t> rows;
    for (const int64_t index : indices) rows.push_back(index % batch_.num_samples);
    Batch batch = batch_.Select(rows);
    batch.sample_ids.assign(indices.begin(), indices.end());
    return batch;
  }

 private:
  Batch batch_;
};

}  // namespace composer

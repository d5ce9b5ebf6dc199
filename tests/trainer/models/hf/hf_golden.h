// What transformers computes with small models of its families: tests/golden/hf (tools/make_hf_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "checkpoint/tools/weight_files.h"
#include "trainer/core/batch.h"
#include "trainer/models/hf/hf_model.h"

namespace composer {

inline std::string GoldenFolder(const std::string& name) { return "tests/golden/hf/" + name; }

struct HfGolden {
  explicit HfGolden(const std::string& name) {
    const auto read = ReadWeights(GoldenFolder(name) + "/golden.safetensors", "");
    EXPECT_TRUE(read.ok()) << read.status();
    for (const auto& [key, tensor] : read->tensors) tensors[key] = tensor;
    batch.inputs = tensors.contains("pixel_values") ? tensors["pixel_values"] : tensors.at("input_ids");
    batch.num_samples = batch.inputs.size(0);
    for (const char* key : {"attention_mask", "token_type_ids"}) {
      if (tensors.contains(key)) batch.extra[key] = tensors[key];
    }
    if (tensors.contains("labels")) batch.targets = tensors["labels"];
  }
  std::map<std::string, at::Tensor> tensors;
  Batch batch;
};

// |a - b| / |b|.
inline double RelativeDifference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return ((x - y).norm() / y.norm()).item<double>();
}

}  // namespace composer

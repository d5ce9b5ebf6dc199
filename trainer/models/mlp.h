// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/model.h"

namespace composer {

// Linear layers with ReLU between them. sizes = {features, hidden..., classes}, at least two, each at least 1. Inputs
// [B, *] are flattened to [B, features]. Parameters: layers.0.weight, layers.0.bias, … They are initialised like
// torch.nn.Linear's, from torch's generator. Throws c10::ValueError for invalid sizes.
std::shared_ptr<Model> MakeMlp(const std::vector<int64_t>& sizes);

}  // namespace composer

// Writes what a model's forward computes as a TorchScript file, which torch.jit.load of Python and C++ read.
//
// The model is traced (traced_model.h) with two examples that differ in the number of samples. Integers that differ,
// a + b n of n samples, are computed from the first input, so that the file takes any number of them; lengths of texts
// and sizes of images are the example's. Parameters and buffers keep their names: state_dict() has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/model.h"

namespace composer {

// The example has at least three samples. Returns the bytes of the file: a module of evaluation mode, whose forward
// takes `inputs` and the batch's extras by their names, and returns a tensor, or a dictionary of a model with several
// outputs. kFailedPrecondition when the model computes something else for another number of samples, which a run with
// one sample is to find; kUnimplemented for branches that are part of the graph.
absl::StatusOr<std::string> ExportTorchScript(Model& model, const Batch& example);

}  // namespace composer

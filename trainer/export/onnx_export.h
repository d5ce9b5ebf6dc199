// Writes what a model's forward computes as an ONNX file, for onnxruntime and other programs.
//
// The model is traced (traced_model.h) with two examples that differ in the number of samples, so that the file takes
// any number of them; lengths of texts and sizes of images are the example's. Parameters keep their names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/core/model.h"

namespace composer {

// kInt8: parameters of two or more dimensions that products, convolutions and embeddings read (of 1024 numbers or more)
// are int8 with a float32 scale for each output: w = round(w / s) s, s = max |w| / 127, so that a weight moves by s / 2
// at most, and the file has about a quarter of the bytes. What is computed stays float32.
enum class OnnxWeights { kAsTheyAre, kInt8 };

// The example has at least three samples. Returns the bytes of the file. kUnimplemented, naming the operator, when the
// model calls one that has no translation here; kFailedPrecondition when the number of samples is built into what the
// model computes; kResourceExhausted above 2 GB.
absl::StatusOr<std::string> ExportOnnx(Model& model, const Batch& example,
                                       OnnxWeights weights = OnnxWeights::kAsTheyAre);

}  // namespace composer

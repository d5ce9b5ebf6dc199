// `composer checkpoint export RUN model.onnx` and `… model.ts`: the model of a run, with the weights of its newest
// valid checkpoint or of the one that is named, as an ONNX file (trainer/export/onnx_export.h) or a TorchScript file
// (trainer/export/torchscript_export.h). The model is built as the run's config.yaml says; algorithms that changed it
// are part of what is exported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/env.h"

namespace composer {

// Returns whether these words after `composer checkpoint` ask for a model as a file that other programs run.
bool AsksForModelExport(const std::vector<std::string>& args);

// Returns the exit code, as RunCheckpointTool.
int RunModelExport(const std::vector<std::string>& args, const Environment& env, std::ostream& out, std::ostream& err);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/export/onnx_export.h"

#include "trainer/core/torch_status.h"
#include "trainer/export/onnx_converter.h"

namespace composer {

absl::StatusOr<std::string> ExportOnnx(Model& model, const Batch& example, OnnxWeights weights) {
  std::string file;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    TORCH_CHECK_VALUE(example.num_samples >= 3, "ExportOnnx: the example needs three samples");
    const TracedModel traced = TraceModel(model, example.Slice(0, 2), TraceForm::kFolded),
                      other = TraceModel(model, example.Slice(0, 3), TraceForm::kFolded);
    OnnxConverter converter(traced, other, weights == OnnxWeights::kInt8);
    converter.Run();
    absl::StatusOr<std::string> bytes = converter.graph().File("composer");
    if (bytes.ok()) file = *std::move(bytes);
    return bytes.status();
  });
  if (!status.ok()) return status;
  return file;
}

}  // namespace composer

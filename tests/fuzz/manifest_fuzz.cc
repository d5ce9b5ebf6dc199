// Runs ParseManifest on arbitrary bytes: on the input as it is, and on the input as the body of a manifest with a valid
// checksum, so that the fuzzer gets past the checksum. What is parsed must survive being written and parsed again, and
// a plan to load it must be valid.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/folder/load_plan.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/reshard.h"
#include "checkpoint/format/safetensors.h"

namespace {

// A plan to load a whole tensor out of boxes that fill it must move each of its values once.
void TryPlan(const composer::Manifest& manifest, size_t index) {
  const composer::TensorEntry& tensor = manifest.tensors[index];
  const int64_t bytes = composer::TensorBytes(tensor.dtype, tensor.shape).value();
  const int64_t values = composer::Volume(tensor.shape);
  if (values == 0 || values > 4096 || bytes % values != 0) return;
  const std::vector<int64_t> origin(tensor.shape.size(), 0);
  std::vector<int64_t> strides(tensor.shape.size());
  int64_t stride = bytes / values;
  for (size_t d = strides.size(); d-- > 0; stride *= tensor.shape[d]) strides[d] = stride;
  const composer::WantedBox whole{index, {origin, tensor.shape}, strides, bytes / values};
  const composer::LoadPlan plan = composer::PlanLoad(manifest, {whole});
  std::vector<int> moved(static_cast<size_t>(bytes), 0);
  for (const composer::PlannedCopy& copy : plan.copies) {
    composer::VisitRuns(copy.bytes, 0, INT64_MAX, [&](int64_t, int64_t target, int64_t size) {
      for (int64_t i = 0; i < size; ++i) ++moved.at(static_cast<size_t>(target + i));
      return false;
    });
  }
  for (const int times : moved) {
    if (times != 1) std::abort();
  }
}

void Try(absl::string_view text) {
  const auto manifest = composer::ParseManifest(text);
  if (!manifest.ok()) return;
  if (composer::CheckComplete(*manifest).ok()) {
    for (size_t i = 0; i < manifest->tensors.size(); ++i) TryPlan(*manifest, i);
  }
  const composer::LoadPlan all = composer::PlanVerify(*manifest);
  size_t chunks = 0;
  for (const composer::ChunkRun& run : composer::RunsOf(all)) {
    for (size_t i = run.first + 1; i < run.end; ++i) {
      if (all.chunks[i].begin < all.chunks[i - 1].end || all.chunks[i].file != all.chunks[i - 1].file) std::abort();
    }
    chunks += run.end - run.first;
  }
  if (chunks != all.chunks.size()) std::abort();
  const auto written = composer::SerializeManifest(*manifest);
  if (!written.ok()) std::abort();
  const auto again = composer::ParseManifest(*written);
  if (!again.ok() || *again != *manifest) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  Try(text);
  Try(absl::StrCat(text, composer::ManifestTrailer(text)));
  return 0;
}

// Reads arbitrary text as a config.json: whatever it holds, each question gets a value in its range or a StatusError.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "trainer/core/torch_status.h"
#include "trainer/models/hf/hf_config.h"

namespace {

void Ask(composer::HfConfig& config) {
  if (const int64_t size = config.Size("hidden_size", 1); size < 1 || size > 1 << 24) std::abort();
  if (const double part = config.Double("hidden_dropout_prob", 0, 0, 0.99); !(part >= 0 && part <= 0.99)) std::abort();
  if (config.Int("pad_token_id", 0, 0, 9) > 9 || config.Entries("id2label") < 0) std::abort();
  config.Bool("tie_word_embeddings", true);
  config.String("model_type", "");
  config.Strings("architectures");
  for (const int64_t width : config.Sizes("block_out_channels", {1})) {
    if (width < 1 || width > 1 << 24) std::abort();
  }
  config.Only("pruned_heads", {nlohmann::json::object()});
  composer::HfConfig scaling = config.Object("rope_scaling");
  scaling.Double("factor", 1, 1, 1e6);
  scaling.Finish();
  config.Finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::StatusOr<composer::HfConfig> config =
      composer::HfConfig::Parse(absl::string_view(reinterpret_cast<const char*>(data), size));
  if (!config.ok()) return 0;
  try {
    Ask(*config);
  } catch (const composer::StatusError& error) {
    if (error.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
  }
  return 0;
}

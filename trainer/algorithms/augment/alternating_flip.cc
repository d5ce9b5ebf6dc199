// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/alternating_flip.h"

#include <ATen/ATen.h>

#include "trainer/core/random.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

// Keeps these draws apart from others with the same seed.
constexpr uint64_t kFlipStream = 0x616c7466'6c697001ULL;

}  // namespace

bool IsFlipped(uint64_t seed, int64_t sample, int64_t epoch) {
  const uint64_t drawn = MixSeed(seed, static_cast<uint64_t>(sample), kFlipStream) >> 32;
  return ((drawn + static_cast<uint64_t>(epoch)) & 1) != 0;
}

at::Tensor FlipImages(const at::Tensor& images, const std::vector<bool>& flipped) {
  TORCH_CHECK_VALUE(images.defined() && images.dim() == 4 && images.size(0) == static_cast<int64_t>(flipped.size()),
                    "alternating_flip: it takes images [B, C, H, W], ", flipped.size(), " of them; the inputs ",
                    images.defined() ? c10::str("have shape ", images.sizes()) : "are missing");
  at::Tensor mask = at::empty({images.size(0), 1, 1, 1}, at::kBool);
  for (size_t i = 0; i < flipped.size(); ++i) mask.data_ptr<bool>()[i] = flipped[i];
  return at::where(mask.to(images.device()), images.flip({3}), images);
}

absl::Status AlternatingFlip::Apply(Event /*event*/, State& state, Logger& /*logger*/) {
  Batch& batch = state.batch;
  if (batch.num_samples == 0) return absl::OkStatus();
  TORCH_CHECK_VALUE(batch.has_sample_ids(),
                    "alternating_flip: it needs the ids of a batch's samples, and this one has "
                    "none; list it before algorithms that change which samples there are");
  std::vector<bool> flipped;
  for (const int64_t sample : batch.sample_ids)
    flipped.push_back(IsFlipped(state.identity.seed, sample, state.timestamp.epoch));
  batch.inputs = FlipImages(batch.inputs, flipped);
  return absl::OkStatus();
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/step_message.h"

#include <algorithm>

namespace composer {
namespace {

constexpr int kLimbBits = 12;
constexpr int kLimbs = 3;

void PutCount(int64_t count, float* out) {
  for (int i = 0; i < kLimbs; ++i) out[i] = static_cast<float>((count >> (i * kLimbBits)) & ((1 << kLimbBits) - 1));
}

int64_t GetCount(const float* in) {
  int64_t count = 0;
  for (int i = 0; i < kLimbs; ++i) count += static_cast<int64_t>(in[i]) << (i * kLimbBits);
  return count;
}

}  // namespace

StepMessage StepMessage::VotesOnly() const {
  StepMessage votes = *this;
  votes.weighted_loss = 0;
  votes.samples = votes.tokens = votes.loss_tokens = 0;
  votes.weighted_parts.fill(0);
  return votes;
}

void StepMessage::Encode(absl::Span<float> out) const {
  out[0] = weighted_loss;
  out[1] = static_cast<float>(stop_votes);
  out[2] = static_cast<float>(drain_votes);
  out[3] = static_cast<float>(out_of_memory);
  out[4] = seconds;
  PutCount(samples, &out[5]);
  PutCount(tokens, &out[8]);
  PutCount(loss_tokens, &out[11]);
  out[14] = static_cast<float>(save_failures);
  out[15] = static_cast<float>(save_votes);
  std::copy(weighted_parts.begin(), weighted_parts.end(), &out[16]);
}

StepMessage StepMessage::Decode(absl::Span<const float> in) {
  StepMessage message;
  message.weighted_loss = in[0];
  message.stop_votes = static_cast<int>(in[1]);
  message.drain_votes = static_cast<int>(in[2]);
  message.out_of_memory = static_cast<int>(in[3]);
  message.seconds = in[4];
  message.samples = GetCount(&in[5]);
  message.tokens = GetCount(&in[8]);
  message.loss_tokens = GetCount(&in[11]);
  message.save_failures = static_cast<int>(in[14]);
  message.save_votes = static_cast<int>(in[15]);
  std::copy_n(&in[16], kMaxLossParts, message.weighted_parts.begin());
  return message;
}

}  // namespace composer

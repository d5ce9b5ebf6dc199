// SPDX-License-Identifier: Apache-2.0
#include "trainer/step/step_message.h"

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
  votes.samples = votes.tokens = votes.trained_samples = votes.loss_tokens = 0;
  votes.weighted_parts.fill(0);
  votes.with_more_parts = 0;
  return votes;
}

void StepMessage::Encode(absl::Span<float> out) const {
  float* next = out.data();
  for (const int votes :
       {stop_votes, drain_votes, out_of_memory, save_failures, save_votes, profile_votes, with_more_parts})
    *next++ = static_cast<float>(votes);
  *next++ = seconds;
  for (const int64_t count : {samples, tokens, trained_samples, loss_tokens}) {
    PutCount(count, next);
    next += kLimbs;
  }
  WireNumber::Put(weighted_loss, next);
  for (const double part : weighted_parts) WireNumber::Put(part, next += WireNumber::kLength);
}

StepMessage StepMessage::Decode(absl::Span<const float> in) {
  StepMessage message;
  const float* next = in.data();
  for (int* votes : {&message.stop_votes, &message.drain_votes, &message.out_of_memory, &message.save_failures,
                     &message.save_votes, &message.profile_votes, &message.with_more_parts})
    *votes = static_cast<int>(*next++);
  message.seconds = *next++;
  for (int64_t* count : {&message.samples, &message.tokens, &message.trained_samples, &message.loss_tokens}) {
    *count = GetCount(next);
    next += kLimbs;
  }
  message.weighted_loss = WireNumber::Get(next);
  for (double& part : message.weighted_parts) part = WireNumber::Get(next += WireNumber::kLength);
  return message;
}

}  // namespace composer

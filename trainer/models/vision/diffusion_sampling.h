// Making pictures with a diffusion model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "trainer/core/model_sharding.h"
#include "trainer/models/vision/diffusion_model.h"

namespace composer {

enum class DiffusionSampler { kDdim, kDdpm };

struct DiffusionSamplingOptions {
  DiffusionSampler sampler = DiffusionSampler::kDdim;
  int64_t num_inference_steps = 50;  // of the model; 1 to its num_train_timesteps
  double eta = 0;                    // in [0, 1]; of kDdim: how much noise is added on the way, 1: as in DDPM
  double guidance_scale = 1;         // Guide's; 1: without guidance, which takes half of the time
  uint64_t seed = 0;                 // of what is added on the way
};

// Throws c10::ValueError naming the field.
void CheckDiffusionSampling(const DiffusionSamplingOptions& options, const NoiseSchedule& schedule);

// Returns pictures, float32 [B, channels, H, W], for a condition of B samples, beginning with `noise` of
// DiffusionModel::sample_shape. What comes out is divided by the model's scaling_factor, and decoded by its vae, if it
// has one. The model must be in evaluation mode; it computes in the type of its
// parameters. `sharding` is the model's and may be null; with it this is a collective, in which every rank makes
// num_inference_steps passes, with B of at least 1. Source: diffusers' pipelines.
at::Tensor SamplePictures(DiffusionModel& model, const at::Tensor& noise, const DiffusionCondition& condition,
                          const DiffusionSamplingOptions& options, ModelSharding* sharding = nullptr);

// Returns the hidden states of tokens, int64 [B, T], for DiffusionCondition::text, float32. As SamplePictures is.
at::Tensor EncodeForSampling(DiffusionModel& model, const at::Tensor& tokens, ModelSharding* sharding = nullptr);

}  // namespace composer

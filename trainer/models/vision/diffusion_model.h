// The common part of models that take noise out of pictures or latents.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/model.h"
#include "trainer/models/vision/autoencoder.h"
#include "trainer/models/vision/noise_schedule.h"

namespace composer {

// What pictures are made for. Each may be undefined.
struct DiffusionCondition {
  at::Tensor text;    // the hidden states of a text encoder, [B, T, D]
  at::Tensor labels;  // classes, int64 [B]
  // What stands for no text, [B, T, D] or [1, T, D]: the states of an empty caption, or of what is not wanted;
  // undefined: zeros.
  at::Tensor no_text = {};
};

struct DiffusionOptions {
  NoiseScheduleOptions schedule;
  double scaling_factor = 1;        // inputs are multiplied by it, and samples divided: the autoencoder's (0.18215)
  bool scaled_inputs = false;       // the latents of the data are already multiplied by it
  double conditioning_dropout = 0;  // in [0, 1): how often a sample is trained without its condition
};

// Trained models that make latents of pictures, and hidden states of tokens. They are frozen: no gradients, no state of
// an optimizer, evaluation mode, also while the diffusion model trains. Each may be null.
struct DiffusionEncoders {
  std::shared_ptr<Autoencoder> vae;
  std::shared_ptr<Model> text_encoder;  // its outputs are the hidden states, [B, T, D], of `inputs` int64 [B, T]
};

// A batch has `inputs`, floats [B, channels, H, W] (pictures or latents), and where the model wants them
// `encoder_hidden_states` [B, T, D], and the classes: `class_labels` int64 [B], else `targets`. In training, steps and
// noise are drawn from torch's generator, in evaluation from the samples' ids (their places, without ids), so that an
// evaluation always sees the same ones; `timesteps` int64 [B] and `noise` in the batch come in place of both. Outputs
// are `outputs`, what the model computes for the pictures with noise, `target`, what it should, and `timesteps`. The
// loss is the mean square of their difference, in float32. MeanSquaredError is the metric, in training and in
// evaluation.
//
// With a vae `inputs` are pictures, [B, vae's in_channels, H, W] of -1 to 1, whose latents are drawn like the noise
// (`latent_noise` in the batch comes in place of the draw); with scaled_inputs they may as well be latents. With a
// text_encoder the batch has `input_ids`, int64 [B, T], or `encoder_hidden_states`.
class DiffusionModel : public Model {
 public:
  Outputs forward(const Batch& batch) final;
  Loss loss(const Outputs& outputs, const Batch& batch) final;
  at::Tensor sample_losses(const Outputs& outputs, const Batch& batch) final;
  MetricList metrics(bool is_train) const final;
  double flops_per_sample() const final { return flops_per_sample_ + encoder_flops_; }
  void train(bool on = true) final;

  // Makes the encoders parts of this model, `vae` and `text_encoder`, and freezes them. To be called once. Throws
  // c10::ValueError if the vae's latents are not what the model takes.
  void AddEncoders(const DiffusionEncoders& encoders);
  // Latents that are not scaled become pictures; without a vae they are returned.
  at::Tensor DecodeLatents(const at::Tensor& latents);
  // Throws c10::ValueError without a text_encoder.
  at::Tensor EncodeTokens(const at::Tensor& tokens);
  const DiffusionEncoders& encoders() const { return encoders_; }

  // What the model computes (PredictionType) for pictures of these steps, int64 [B]; has the pictures' shape. Throws
  // c10::ValueError that names what does not fit.
  virtual at::Tensor Denoise(const at::Tensor& pictures, const at::Tensor& steps,
                             const DiffusionCondition& condition) = 0;
  // Returns what the model reads of a condition for `samples` pictures. Throws c10::ValueError if it lacks something,
  // or something does not fit.
  virtual DiffusionCondition CheckedCondition(const DiffusionCondition& given, int64_t samples) const = 0;
  // Returns the condition without what is in it, for the samples (boolean [B]) that `left_out` chooses.
  virtual DiffusionCondition WithoutCondition(const DiffusionCondition& condition,
                                              const at::Tensor& left_out) const = 0;

  // Channels, height and width of the pictures, or latents, to sample.
  virtual std::vector<int64_t> sample_shape() const = 0;
  // Tokens of a text for EncodeTokens.
  virtual int64_t text_tokens() const = 0;

  // The condition of a batch, checked.
  DiffusionCondition ConditionOf(const Batch& batch);
  const NoiseSchedule& schedule() const { return schedule_; }
  double scaling_factor() const { return options_.scaling_factor; }

 protected:
  // Throws c10::ValueError that names the field.
  explicit DiffusionModel(const DiffusionOptions& options);

  double flops_per_sample_ = 0;  // forward and backward; set by derived classes

 private:
  // The batch's pictures or scaled latents, in float32.
  at::Tensor PicturesOf(const Batch& batch);

  DiffusionOptions options_;
  NoiseSchedule schedule_;
  DiffusionEncoders encoders_;
  double encoder_flops_ = 0;
};

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/diffusion_sampling.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

namespace composer {
namespace {

at::Tensor Twice(const at::Tensor& first, const at::Tensor& second) {
  return first.defined() ? at::cat({first, second}) : first;
}

// What the model computes, in float32.
at::Tensor PassOf(DiffusionModel& model, const at::Tensor& pictures, int64_t step, const DiffusionCondition& condition,
                  ModelSharding* sharding) {
  WholeModelScope whole(sharding);
  const at::ScalarType type = model.parameters().front().scalar_type();
  const at::Tensor steps = torch::full({pictures.size(0)}, step, torch::dtype(at::kLong).device(pictures.device()));
  DiffusionCondition given = condition;
  if (given.text.defined()) given.text = given.text.to(type);
  const at::Tensor computed = model.Denoise(pictures.to(type), steps, given).to(at::kFloat);
  whole.End();
  return computed;
}

}  // namespace

void CheckDiffusionSampling(const DiffusionSamplingOptions& options, const NoiseSchedule& schedule) {
  schedule.SamplingSteps(options.num_inference_steps);
  TORCH_CHECK_VALUE(options.eta >= 0 && options.eta <= 1, "eta: ", options.eta, " must be in 0 .. 1");
  TORCH_CHECK_VALUE(options.guidance_scale >= 0, "guidance_scale: ", options.guidance_scale, " must be at least 0");
}

at::Tensor SamplePictures(DiffusionModel& model, const at::Tensor& noise, const DiffusionCondition& condition,
                          const DiffusionSamplingOptions& options, ModelSharding* sharding) {
  const torch::NoGradGuard no_grad;
  const NoiseSchedule& schedule = model.schedule();
  CheckDiffusionSampling(options, schedule);
  const bool guided = options.guidance_scale != 1 && (condition.text.defined() || condition.labels.defined());
  DiffusionCondition both = condition;
  if (guided) {
    const at::Tensor all = torch::ones({noise.size(0)}, torch::dtype(at::kBool).device(noise.device()));
    const DiffusionCondition without = model.WithoutCondition(condition, all);
    both = {Twice(without.text, condition.text), Twice(without.labels, condition.labels)};
  }
  auto generator = at::detail::createCPUGenerator(options.seed);
  const int64_t count = options.num_inference_steps;
  const std::vector<int64_t> steps = schedule.SamplingSteps(count);
  at::Tensor x = noise.to(at::kFloat);
  for (size_t i = 0; i < steps.size(); ++i) {
    at::Tensor computed = PassOf(model, guided ? at::cat({x, x}) : x, steps[i], both, sharding);
    if (guided) {
      const std::vector<at::Tensor> halves = computed.chunk(2);
      computed = Guide(halves[0], halves[1], options.guidance_scale);
    }
    at::Tensor added;
    if (options.sampler == DiffusionSampler::kDdpm || options.eta > 0)
      added = torch::empty(x.sizes(), torch::kFloat).normal_(0, 1, generator).to(x.device());
    if (options.sampler == DiffusionSampler::kDdpm) {
      x = schedule.DdpmStep(computed, steps[i], i + 1 < steps.size() ? steps[i + 1] : -1, x, added);
    } else {
      x = schedule.DdimStep(computed, steps[i], count, x, options.eta, added);
    }
  }
  x = x / model.scaling_factor();
  if (model.encoders().vae == nullptr) return x;
  WholeModelScope whole(sharding);
  const at::Tensor pictures = model.DecodeLatents(x.to(model.parameters().front().scalar_type())).to(at::kFloat);
  whole.End();
  return pictures;
}

at::Tensor EncodeForSampling(DiffusionModel& model, const at::Tensor& tokens, ModelSharding* sharding) {
  WholeModelScope whole(sharding);
  const at::Tensor text = model.EncodeTokens(tokens).to(at::kFloat);
  whole.End();
  return text;
}

}  // namespace composer

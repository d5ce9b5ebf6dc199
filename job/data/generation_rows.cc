// SPDX-License-Identifier: Apache-2.0
#include "job/data/generation_rows.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "trainer/models/beam_search.h"
#include "trainer/models/logits_processors.h"
#include "trainer/models/sampling.h"

namespace composer {
namespace {

SamplingOptions ReadSampling(ConfigMap& config, uint64_t seed) {
  SamplingOptions sampling;
  sampling.do_sample = config.Bool("do_sample", false);
  sampling.temperature = config.Double("temperature", sampling.temperature);
  sampling.top_k = config.Int("top_k", sampling.top_k, {.min = 0});
  sampling.top_p = config.Double("top_p", sampling.top_p);
  sampling.seed = config.Has("seed") ? static_cast<uint64_t>(config.Int("seed", 0, {.min = 0})) : seed;
  const absl::Status status = Validate(sampling);
  if (!status.ok()) config.Reject("", status.message());
  return sampling;
}

LogitsOptions ReadLogits(ConfigMap& config) {
  LogitsOptions logits;
  logits.repetition_penalty = config.Double("repetition_penalty", logits.repetition_penalty);
  logits.no_repeat_ngram_size = config.Int("no_repeat_ngram_size", 0, {.min = 0});
  logits.min_new_tokens = config.Int("min_new_tokens", 0, {.min = 0});
  return logits;
}

BeamOptions ReadBeams(ConfigMap& config) {
  using EarlyStopping = BeamOptions::EarlyStopping;
  BeamOptions beams;
  beams.num_beams = config.Int("num_beams", 1, {.min = 1});
  beams.length_penalty = config.Double("length_penalty", beams.length_penalty);
  const std::string early = config.Choice("early_stopping", {"false", "true", "never"}, "false");
  beams.early_stopping = early == "true"    ? EarlyStopping::kTrue
                         : early == "never" ? EarlyStopping::kNever
                                            : EarlyStopping::kFalse;
  return beams;
}

// Accepts one number or a list of them, like Hugging Face.
std::vector<int64_t> ReadEndTokens(ConfigMap& config) {
  std::vector<int64_t> tokens;
  for (const std::string& text : config.StringList("eos_token_id", {})) {
    int64_t token = -1;
    if (absl::SimpleAtoi(text, &token) && token >= 0) {
      tokens.push_back(token);
    } else {
      config.Reject("eos_token_id",
                    absl::StrCat("expected a token's number, at least 0, or a list of such, got `", text, "`"));
    }
  }
  return tokens;
}

}  // namespace

void ReadGenerationKwargs(ConfigMap& config, uint64_t seed, GenerateOptions& options) {
  if (config.Has("eos_token_id")) options.eos_token_id = ReadEndTokens(config);
  options.use_cache = config.Bool("use_cache", true);
  options.sampling = ReadSampling(config, seed);
  options.logits = ReadLogits(config);
  options.beams = ReadBeams(config);
  for (const absl::Status& status : {Validate(options.logits, options.max_new_tokens), Validate(options.beams)})
    if (!status.ok()) config.Reject("", status.message());
  if (options.beams.num_beams > 1 && options.sampling.do_sample)
    config.Reject("num_beams", "above 1 needs do_sample: false: a beam search takes the likeliest texts");
}

}  // namespace composer

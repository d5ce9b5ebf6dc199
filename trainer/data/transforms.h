// Transforms of one sample. Each throws c10::ValueError that names the key when a sample lacks what it needs. The
// factories throw c10::ValueError for arguments that cannot work. Threads: any number at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/core/dataset.h"
#include "trainer/core/tokenizer.h"

namespace composer {

using SampleTransformPtr = std::shared_ptr<const SampleTransform>;

// A transform after which images are numbers and no longer bytes. Algorithms that change bytes put theirs before it.
class EndsImageBytes : public SampleTransform {};

// Moves a value to another key, replacing what is there.
SampleTransformPtr MakeRename(std::string from, std::string to);
// Drops all but these keys.
SampleTransformPtr MakeKeep(std::vector<std::string> keys);
// Turns a text into `targets`: its position in `classes` (an int64 scalar).
SampleTransformPtr MakeLabel(std::string key, std::vector<std::string> classes);

struct TokenizeOptions {
  std::string key = "text";  // of the text, which is dropped
  std::string to = "inputs";
  bool add_special_tokens = true;
  bool append_eos = false;  // needs a tokenizer with an end-of-sequence token
  int64_t to_length = 0;    // cut and padded to so many tokens, within the special ones; 0: as long as the text is
};
// Turns a text into a row of tokens, int64 [T].
SampleTransformPtr MakeTokenize(std::shared_ptr<const Tokenizer> tokenizer, const TokenizeOptions& options);

// Cuts every row (int64 [T]) at its end, or at its beginning.
SampleTransformPtr MakeTruncate(int64_t max_length, bool keep_end = false);

// For language models that predict the next token: inputs = ids[0, T-1), targets = ids[1, T). Targets that are there
// (as MakePromptResponse makes them) are shifted alike. A row needs two tokens.
SampleTransformPtr MakeShift();

// For fine-tuning: inputs are prompt, response and the end-of-sequence token, if the tokenizer has one; targets are the
// same with -100 in the place of the prompt, so that only responses are learned. Follow it with MakeShift.
// Source: llm-foundry, llmfoundry/data/finetuning/tasks.py.
SampleTransformPtr MakePromptResponse(std::shared_ptr<const Tokenizer> tokenizer, std::string prompt_key,
                                      std::string response_key);

// Masked language modelling: chooses each token of `inputs` that is not special with this probability; targets are the
// chosen tokens, -100 elsewhere. 80 % of them become the mask token, 10 % a random one, 10 % stay.
// Source: Devlin et al. 2018, arXiv:1810.04805; transformers' DataCollatorForLanguageModeling.
SampleTransformPtr MakeMask(std::shared_ptr<const Tokenizer> tokenizer, double probability = 0.15);

// For images [C, H, W]. A random crop of `size` x `size` after `padding` zeros on each side.
SampleTransformPtr MakeRandomCrop(int64_t size, int64_t padding = 0);
SampleTransformPtr MakeRandomFlip(double probability = 0.5);  // left to right
// (x - mean) / std for each channel; as float32.
SampleTransformPtr MakeNormalize(std::vector<double> mean, std::vector<double> std);

}  // namespace composer

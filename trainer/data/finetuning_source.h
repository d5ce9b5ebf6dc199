// Samples for fine-tuning out of JSON lines or the rows of tables: {"prompt": …, "response": …}, or {"messages":
// [{"role": …, "content": …}, …]}. Only responses are learned: what the role `assistant` says, with the end of its
// turn.
// Source: llm-foundry, llmfoundry/data/finetuning/tasks.py; OpenAI's ChatML.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/dataset.h"
#include "trainer/core/tokenizer.h"

namespace composer {

struct FinetuningOptions {
  std::vector<std::string> paths;  // files, folders or globs; .gz is decompressed. Not used with rows
  int64_t max_seq_len = 2048;      // T: at most so many inputs
  std::string prompt_key = "prompt";
  std::string response_key = "response";
  std::string messages_key = "messages";
  // What stands before and after each message. `{role}` is its role.
  std::string turn_begin = "<|im_start|>{role}\n";
  std::string turn_end = "<|im_end|>\n";
  // In their place: a template of Jinja (data/chat/chat_template.h), a file, or a folder of a tokenizer that has one.
  // Prompt and response are then a chat, too. The template is rendered for the whole chat, and what it adds to the text
  // up to a message of the assistant's is learned.
  std::string chat_template;
};

// A sample has `inputs` and `targets`, int64 [t], t <= T: tokens and the tokens that follow them, -100 for what is not
// learned. The end-of-sequence token, if the tokenizer has one, follows the last text; with a template no token is
// added to what it renders. Of a longer sample tokens are left out before what is learned first, and then at the end.
// Get throws c10::ValueError naming file and byte for a line that is not such an object, and where nothing is learned.
// kInvalidArgument without a tokenizer, or for a template that is not supported. With `rows`, these are in the place of
// JSON lines, and have their order: samples whose texts are the keys, those of lists in JSON.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenFinetuning(const FinetuningOptions& options,
                                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                                   std::shared_ptr<const SampleSource> rows = nullptr);
// Returns the keys that are read of a row; a row has some of them.
std::vector<std::string> FinetuningKeys(const FinetuningOptions& options);

}  // namespace composer

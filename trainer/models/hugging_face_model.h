// What a model of one of Hugging Face's families keeps, so that its checkpoints can be written as a folder that
// transformers loads (`composer checkpoint export --hf`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace composer {

class HuggingFaceModel {
 public:
  virtual ~HuggingFaceModel() = default;
  // Returns how many tokens the model has.
  virtual int64_t vocabulary() const = 0;

  std::string config_json;   // the text of config.json; "": unknown
  std::string folder;        // the folder that the model came from, where tokenizer files may lie; "": none
  int64_t added_tokens = 0;  // rows of its word tables that the folder's have not
};

}  // namespace composer

// Parses arbitrary bytes as a chat template, and renders what is accepted.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "data/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto made = composer::ChatTemplate::Parse({reinterpret_cast<const char*>(data), size});
  if (!made.ok()) return 0;
  const composer::TemplateValue chat = {
      {"messages", {{{"role", "user"}, {"content", "a\xc3\xb6 b"}}, {{"role", "assistant"}, {"content", ""}}}},
      {"tools", nullptr},
      {"add_generation_prompt", true},
      {"bos_token", "<s>"},
      {"number", 7}};
  (void)made->Render(chat);
  return 0;
}

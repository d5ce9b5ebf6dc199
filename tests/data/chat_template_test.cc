// Templates of chats render what transformers renders (tools/make_chat_goldens.py), and name what they do not support.
// SPDX-License-Identifier: Apache-2.0
#include "data/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;

TEST(ChatTemplate, RendersWhatTransformersRenders) {
  // Published templates may be looked at in the same way: their file is written by the same script.
  const char* other = std::getenv("COMPOSER_CHAT_GOLDEN");
  const auto golden = TemplateValue::parse(*ReadFile(other != nullptr ? other : "tests/golden/chat.json"));
  ASSERT_GE(golden["cases"].size(), 6u);
  for (const auto& item : golden["cases"]) {
    SCOPED_TRACE(item["name"]);
    const auto made = ChatTemplate::Parse(item["template"].get<std::string>());
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) continue;
    for (size_t i = 0; i < golden["chats"].size(); ++i) {
      TemplateValue variables = golden["chats"][i];
      variables["bos_token"] = "<s>";
      variables["eos_token"] = "</s>";
      const auto text = made->Render(variables);
      const auto& wanted = item["rendered"][i];
      if (wanted.contains("error")) {
        EXPECT_FALSE(text.ok()) << i << ": " << *text;
      } else {
        ASSERT_TRUE(text.ok()) << i << ": " << text.status();
        EXPECT_EQ(*text, wanted["text"].get<std::string>()) << i;
      }
    }
  }
}

std::string Refusal(const std::string& text, const TemplateValue& variables = TemplateValue::object()) {
  const auto made = ChatTemplate::Parse(text);
  if (!made.ok()) return std::string(made.status().message());
  return std::string(made->Render(variables).status().message());
}

TEST(ChatTemplate, NamesWhatIsNotSupported) {
  EXPECT_EQ(Refusal("a\n{% macro f() %}{% endmacro %}"), "line 2: `macro` is not supported");
  EXPECT_EQ(Refusal("{{ 1 | round }}"), "line 1: the filter `round` is not supported");
  EXPECT_EQ(Refusal("{{ 1 is callable }}"), "line 1: the test `callable` is not supported");
  EXPECT_EQ(Refusal("{{ strftime_now('%d') }}"), "line 1: the function `strftime_now` is not supported");
  EXPECT_EQ(Refusal("{{ 'a'.zfill(3) }}"), "line 1: the method `zfill` of a text is not supported");
  EXPECT_EQ(Refusal("{{ [1] }}"), "line 1: printing a list without tojson is not supported");
  EXPECT_EQ(Refusal("{{ raise_exception('no') }}"), "line 1: the template refuses this: no");
  EXPECT_EQ(Refusal("{{ a.b.c }}", {{"a", TemplateValue::object()}}),
            "line 1: a part of something undefined is asked for");
}

TEST(ChatTemplate, NamesWhatIsWrong) {
  for (const char* bad :
       {"{{", "{% if x %}", "{% for x in y %}", "{# a", "{{ 'a }}", "{% endif %}", "{{ a b }}", "{{ ) }}",
        "{% if %}{% endif %}", "{% for in y %}{% endfor %}", "{{ a[ }}", "{% set %}", "{% break %}", "{{ ? }}",
        "{{ 99999999999999999999 }}", "{% if a %}{% else %}{% else %}{% endif %}"}) {
    EXPECT_THAT(ChatTemplate::Parse(bad).status().message(), HasSubstr("line 1")) << bad;
  }
  EXPECT_FALSE(
      ChatTemplate::Parse(absl::StrCat("{{ ", std::string(5000, '('), "1", std::string(5000, ')'), " }}")).ok());
  EXPECT_FALSE(ChatTemplate::Parse(absl::StrCat("{{ ", std::string(5000, '-'), "1 }}")).ok());
  std::string deep;
  for (int i = 0; i < 3000; ++i) deep += "{% if 1 %}";
  EXPECT_FALSE(ChatTemplate::Parse(deep).ok());
  EXPECT_EQ(Refusal("{% for a in range(999999) %}{% for b in range(999999) %}{% endfor %}{% endfor %}"),
            "line 1: the template takes too many steps");
}

TEST(ChatTemplate, IsFoundInAFolder) {
  TempDir dir;
  EXPECT_FALSE(FindChatTemplate(dir.path())->has_value());
  const auto write = [&](const char* name, const std::string& text) {
    EXPECT_TRUE(AtomicWriteFile(dir.Path(name), text).ok());
  };
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(**FindChatTemplate(dir.path()), "d");
  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(FindChatTemplate(dir.path()).status().message(), HasSubstr("chat_template: must be a text"));
  write("tokenizer_config.json", R"({"chat_template": "t"})");
  EXPECT_EQ(**FindChatTemplate(dir.path()), "t");
  write("chat_template.jinja", "own");
  EXPECT_EQ(**FindChatTemplate(dir.path()), "own");
}

}  // namespace
}  // namespace composer

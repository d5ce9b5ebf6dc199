// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/json_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(CheckJson, AcceptsAndRefuses) {
  using std::string_literals::operator""s;
  const struct {
    std::string text;
    std::string problem;  // "" means accepted
  } kCases[] = {
      {R"({"a":[1,-2.5,true,null,"x\u00e4"],"b":{"a":1}})", ""},
      {" 1 \n", ""},
      {"", "syntax error"},
      {"{", "syntax error"},
      {"{} {}", "syntax error"},
      {"{}\0garbage"s, "NUL"},
      {"\xef\xbb\xbf{}", "byte order mark"},
      {"\"\xff\"", "syntax error"},
      {"NaN", "syntax error"},
      {"1e999", "syntax error"},
      {"{} // comment", "syntax error"},
      {R"({"a":1,"a":2})", "twice"},
      {R"({"a":1,"\u0061":2})", "twice"},
      {R"([{"a":1},{"a":2}])", ""},
      {"[[[[1]]]]", "deeper than 3"},
      {"[1,2,3,4,5,6,7,8,9,10,11,12]", "more than 12 values"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = CheckJson(test.text, {.max_depth = 3, .max_values = 12});
    EXPECT_EQ(status.ok(), test.problem.empty()) << test.text << ": " << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(test.problem)) << test.text;
  }
}

TEST(CheckJson, EndlessNestingIsRefusedWithoutRunningOutOfStack) {
  EXPECT_FALSE(CheckJson(std::string(10'000'000, '[')).ok());
}

TEST(CanonicalJson, SortsKeysAndKeepsNumbers) {
  EXPECT_EQ(*CanonicalJson(R"( { "b" : 0.1, "a" : [ 18446744073709551615, 1e-300 ] } )"),
            R"({"a":[18446744073709551615,1e-300],"b":0.1})");
  EXPECT_EQ(CanonicalJson("{").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(QuoteJson, EscapesAndRefusesBrokenUtf8) {
  EXPECT_EQ(*QuoteJson("a\"b\n"), R"("a\"b\n")");
  EXPECT_EQ(QuoteJson("\xff").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace composer

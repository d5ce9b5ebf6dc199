// SPDX-License-Identifier: Apache-2.0
#include "data/tools/tokenize_tool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace composer {
namespace {

using testing::HasSubstr;

class TokenizeToolTest : public ::testing::Test {
 protected:
  int Run(const std::vector<std::string>& args, const std::string& text) {
    out_.str("");
    err_.str("");
    std::istringstream in(text);
    return RunTokenizeTool(args, in, out_, err_);
  }
  std::ostringstream out_, err_;
};

TEST_F(TokenizeToolTest, LinesBecomeNumbersAndTextAgain) {
  const std::string path = "tests/golden/tokenizers/bytes";
  const std::string text = "The licence, 2024.\n\n \xc3\xa9t\xc3\xa9\n";
  ASSERT_EQ(Run({path}, text), 0) << err_.str();
  const std::string numbers = out_.str();
  ASSERT_EQ(Run({"--decode", path}, numbers), 0) << err_.str();
  EXPECT_EQ(out_.str(), text);
  ASSERT_EQ(Run({"--count", path}, text), 0);
  EXPECT_THAT(out_.str(), HasSubstr("3 lines, 27 bytes, "));
  ASSERT_EQ(Run({"--spans", path}, "a\n"), 0);
  EXPECT_THAT(out_.str(), HasSubstr(":0-1"));
}

TEST_F(TokenizeToolTest, MistakesAreNamed) {
  EXPECT_EQ(Run({"/none"}, ""), 64);
  EXPECT_THAT(err_.str(), HasSubstr("/none"));
  EXPECT_EQ(Run({"--decode", "tests/golden/tokenizers/bytes"}, "1\n99999999\n"), 64);
  EXPECT_THAT(err_.str(), HasSubstr("line 2: `99999999` is not a token from 0 to "));
  EXPECT_EQ(Run({"--help"}, ""), 0);
  EXPECT_THAT(out_.str(), HasSubstr("--decode"));
  EXPECT_EQ(Run({}, ""), 64);
}

}  // namespace
}  // namespace composer

// Tests composer runs, plot and report called as the program calls them.
// SPDX-License-Identifier: Apache-2.0
#include "views/run_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "data/image/png.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the exit code, and what was printed to both streams, in `folder`.
std::pair<int, std::string> Composer(const std::string& folder, std::vector<std::string> words) {
  std::filesystem::current_path(folder);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const std::string command = words[0];
  words.erase(words.begin());
  const int code = command == "runs"   ? RunsCommand(words)
                   : command == "plot" ? PlotCommand(words)
                                       : ReportCommand(words);
  const std::string output = testing::internal::GetCapturedStdout();
  return {code, output + testing::internal::GetCapturedStderr()};
}

class RunCommandsTest : public ::testing::Test {
 protected:
  RunCommandsTest() {
    for (const auto& [name, lr] : {std::pair("one", 0.5), std::pair("two", 0.25)}) {
      const std::string folder = dir_.Path(absl::StrCat("runs/", name));
      std::filesystem::create_directories(folder);
      std::ofstream(folder + "/config.yaml") << "optimizers: {lr: " << lr << "}\nseed: 1\n";
      std::ofstream metrics(folder + "/metrics.jsonl");
      for (int i = 1; i <= 50; ++i)
        metrics << "{\"time/epoch\":0,\"time/batch\":" << i << ",\"wall\":" << 1000 + i
                << ",\"loss/train/total\":" << lr * i << "}\n";
    }
  }
  ~RunCommandsTest() override { std::filesystem::current_path(before_); }

  TempDir dir_;
  const std::filesystem::path before_ = std::filesystem::current_path();
};

TEST_F(RunCommandsTest, ListsFiltersAndCompares) {
  auto [code, output] = Composer(dir_.path(), {"runs"});
  EXPECT_EQ(code, 0);
  EXPECT_THAT(output, testing::ContainsRegex("one +unknown +50"));
  std::tie(code, output) = Composer(dir_.path(), {"runs", "--json", "--filter", "config.optimizers.lr>0.3"});
  const auto json = nlohmann::json::parse(output);
  ASSERT_EQ(json["runs"].size(), 1u);
  EXPECT_EQ(json["runs"][0]["name"], "one");
  EXPECT_EQ(json["runs"][0]["metrics"]["loss/train/total"], 25);
  std::tie(code, output) = Composer(dir_.path(), {"runs", "runs", "--compare", "--sort", "name"});
  EXPECT_THAT(output, testing::ContainsRegex("optimizers.lr +0.5 +0.25"));
  EXPECT_THAT(output, Not(HasSubstr("seed")));
}

TEST_F(RunCommandsTest, PlotsInTheTerminalAndAsPictures) {
  auto [code, output] =
      Composer(dir_.path(), {"plot", "one", "two", "loss/train/total", "--width", "60", "--height", "12"});
  EXPECT_EQ(code, 0) << output;
  EXPECT_THAT(output, HasSubstr("one  25\n"));
  EXPECT_THAT(output, HasSubstr("two  12.5\n"));
  std::tie(code, output) =
      Composer(dir_.path(), {"plot", "one", "loss/*", "--svg", "a.svg", "--smooth", "0.9", "--log", "--x", "time"});
  EXPECT_EQ(code, 0) << output;
  EXPECT_GT(std::filesystem::file_size(dir_.Path("a.svg")), 500u);
  std::tie(code, output) = Composer(dir_.path(), {"plot", "one", "two", "loss/train/total", "--png", "a.png", "--svg",
                                                  "b.svg", "--width", "600", "--height", "300"});
  EXPECT_EQ(code, 0) << output;
  const auto pixels = DecodePng(*ReadFile(dir_.Path("a.png")), /*alpha=*/false, 1 << 20);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_EQ(pixels->width, 600);
  EXPECT_EQ(pixels->height, 300 + 2 * 16) << "a line of the legend for each curve";
  EXPECT_TRUE(PathExists(dir_.Path("b.svg")));
  std::tie(code, output) = Composer(dir_.path(), {"plot", "one", "loss/*", "--png", "nowhere/a.png"});
  EXPECT_EQ(code, 64);
  EXPECT_THAT(output, HasSubstr("nowhere/a.png"));
}

TEST_F(RunCommandsTest, ReportIsOneFile) {
  auto [code, output] = Composer(dir_.path(), {"report", "one"});
  EXPECT_EQ(code, 0) << output;
  EXPECT_EQ(output, "runs/one/report.html\n");
  std::ifstream file(dir_.Path("runs/one/report.html"));
  const std::string page(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(page, HasSubstr("loss/train/total"));
  EXPECT_THAT(page, HasSubstr("optimizers: {lr: 0.5}"));
}

TEST_F(RunCommandsTest, MistakesAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"runs", "nowhere"}, "there is no folder nowhere"},
      {{"runs", "--filter", "loss"}, "must be KEY=VALUE"},
      {{"runs", "--sorted", "x"}, "did you mean `--sort`"},
      {{"plot", "one"}, "plot takes a RUN and a METRIC"},
      {{"plot", "onne", "loss"}, "did you mean `one`"},
      {{"plot", "one", "loss/train/totl"}, "did you mean `loss/train/total`"},
      {{"plot", "one", "loss", "--smooth", "1"}, "--smooth 1: must be at least 0 and less than 1"},
      {{"plot", "one", "loss", "--x", "steps"}, "batch, epoch, sample, token"},
      {{"report"}, "report takes one RUN"},
  };
  for (const auto& [arguments, message] : cases) {
    const auto [code, output] = Composer(dir_.path(), arguments);
    EXPECT_EQ(code, 64) << message;
    EXPECT_THAT(output, HasSubstr(message)) << message;
  }
  for (const char* command : {"runs", "plot", "report"})
    EXPECT_THAT(Composer(dir_.path(), {command, "--help"}).second,
                HasSubstr(absl::StrCat("usage: composer ", command)));
}

}  // namespace
}  // namespace composer

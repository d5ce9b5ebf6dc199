// SPDX-License-Identifier: Apache-2.0
#include "config/plugin_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "config/yaml.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PluginFilesTest : public ::testing::Test {
 protected:
  PluginFilesTest() {
    EXPECT_TRUE(MakeDirs(dir_.Path("jobs/lib")).ok());
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("jobs/libone.so"), "one").ok());
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("jobs/lib/libtwo.so"), "two").ok());
  }
  // Returns the files and the reader's message.
  std::pair<std::vector<std::string>, std::string> Read(const std::string& yaml) {
    const ConfigNode document = ParseYaml(yaml, "train.yaml").value();
    ConfigReader reader(document);
    ConfigMap root = reader.root();
    std::vector<std::string> files = ReadPluginFiles(root, dir_.Path("jobs/train.yaml"));
    return {files, std::string(reader.Finish().message())};
  }
  TempDir dir_;
};

TEST_F(PluginFilesTest, PathsStartAtTheYamlFile) {
  const auto [files, error] =
      Read("plugins: [./libone.so, lib/../lib/libtwo.so, '" + dir_.Path("jobs/nowhere/../lib2.so") + "']\n");
  EXPECT_THAT(files, ElementsAre(dir_.Path("jobs/libone.so"), dir_.Path("jobs/lib/libtwo.so")));
  EXPECT_THAT(error, HasSubstr("train.yaml:1:10: plugins: `" + dir_.Path("jobs/nowhere/../lib2.so")));
  EXPECT_THAT(error, HasSubstr("No such file"));
  EXPECT_THAT(Read("plugins: libone.so\n").first, ElementsAre(dir_.Path("jobs/libone.so")));
  EXPECT_THAT(Read("plugins: " + dir_.Path("jobs/libone.so\n")).first, ElementsAre(dir_.Path("jobs/libone.so")));
  EXPECT_THAT(Read("{}\n").first, ElementsAre());
}

TEST_F(PluginFilesTest, ErrorsNameTheEntry) {
  EXPECT_THAT(Read("plugins: [lib]\n").second, HasSubstr("`lib`: "));
  EXPECT_THAT(Read("plugins: [lib]\n").second, HasSubstr("is not a file"));
  EXPECT_THAT(Read("plugins: [libone.so, ./lib/../libone.so]\n").second, HasSubstr("listed twice"));
  EXPECT_THAT(Read("plugins: {a: libone.so}\n").second, HasSubstr("expected a list of texts, got a map"));
}

TEST_F(PluginFilesTest, HashIsOverContentsInOrder) {
  const std::string one = dir_.Path("jobs/libone.so"), two = dir_.Path("jobs/lib/libtwo.so");
  const std::string hash = ReadPluginFacts({one, two}).value().hash;
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_NE(hash, ReadPluginFacts({two, one}).value().hash);
  EXPECT_NE(hash, ReadPluginFacts({one}).value().hash);
  EXPECT_EQ(ReadPluginFacts({}).value().hash, "");
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("copy.so"), "one").ok());
  EXPECT_EQ(ReadPluginFacts({dir_.Path("copy.so"), two}).value().hash, hash);
  ASSERT_TRUE(AtomicWriteFile(two, "twO").ok());
  EXPECT_NE(ReadPluginFacts({one, two}).value().hash, hash);
  EXPECT_EQ(ReadPluginFacts({dir_.Path("gone.so")}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace composer

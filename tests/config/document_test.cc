// SPDX-License-Identifier: Apache-2.0
#include "config/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "config/yaml.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

class LoadConfigTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(AtomicWriteFile(dir_.Path(name), text).ok());
    return dir_.Path(name);
  }
  TempDir dir_;
};

TEST_F(LoadConfigTest, FilesThenOverridesThenReferences) {
  const std::string base = Write("base.yaml", "a: 1\nm: {x: 1, y: 2}\nl: [1, 2]\n");
  const std::string job = Write("job.yaml", "m: {y: 3}\nl: [9]\nb: ${a}\n");
  const absl::StatusOr<ConfigNode> root = LoadConfig({base, job}, {"a=5"}, Environment());
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(ToYaml(*root), "m:\n  x: 1\n  y: 3\nl:\n  - 9\nb: 5\nvariables:\n  a: 5\n");
}

TEST_F(LoadConfigTest, SaysWhatIsWrong) {
  EXPECT_EQ(LoadConfig({dir_.Path("none.yaml")}, {}, Environment()).status().code(), absl::StatusCode::kNotFound);
  const absl::Status list = LoadConfig({Write("list.yaml", "- a\n")}, {}, Environment()).status();
  EXPECT_EQ(list.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(list.message()), HasSubstr("list.yaml:1:1: expected `key: value` lines, got a list"));
  EXPECT_EQ(LoadConfig({Write("big.yaml", std::string(2 << 20, '#'))}, {}, Environment()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(LoadConfig({Write("empty.yaml", "")}, {"a=1"}, Environment()).ok());
}

TEST(ConfigHash, DependsOnValuesOnly) {
  const auto hash = [](absl::string_view text) { return ConfigHash(*ParseYaml(text, "x")); };
  EXPECT_EQ(hash("a: 1\nb: [2]\n"), hash("# c\na:   1\nb:\n  - 2\n"));
  EXPECT_NE(hash("a: 1\n"), hash("a: 2\n"));
  EXPECT_THAT(hash("a: 1\n"), testing::MatchesRegex("[0-9a-f]+ a=[0-9a-f]+"));
  std::string many;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&many, "key", i, ": 1\n");
  EXPECT_LE(hash(many).size(), 1000u) << "what the rendezvous takes";
}

TEST_F(LoadConfigTest, ForeignNamesThatMeanTheSameAreTaken) {
  const std::string path =
      Write("job.yaml",
            "optimizer: {name: sgd, lr: 1}\nscheduler: {name: constant}\ntrain_loader: {name: x}\n"
            "eval_loader: [{name: a}, {name: b, batch_size: 3}]\ndevice_eval_batch_size: 4\nrate: ${optimizer.lr}\n");
  const absl::StatusOr<ConfigNode> root = LoadConfig({path}, {"optimizer.lr=2"}, Environment());
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(ToYaml(*root),
            "optimizers:\n  name: sgd\n  lr: 2\nschedulers:\n  name: constant\ntrain_dataloader:\n  name: "
            "x\neval_dataloader:\n"
            "  - name: a\n    batch_size: 4\n  - name: b\n    batch_size: 3\nrate: 2\n");
  const std::string both = Write("both.yaml", "optimizer: {name: sgd}\noptimizers: {name: sgd}\n");
  EXPECT_THAT(std::string(LoadConfig({both}, {}, Environment()).status().message()),
              testing::HasSubstr("optimizer: is another name of `optimizers`, which is given at"));
}

TEST_F(LoadConfigTest, TextThatIsNotUtf8IsRefusedAtItsPlace) {
  const std::string path = Write("latin1.yaml", "seed: 1\nrun_name: M\xfcller\n");
  EXPECT_THAT(std::string(LoadConfig({path}, {}, Environment()).status().message()),
              testing::HasSubstr("latin1.yaml:2:12: the byte 0xfc is not valid UTF-8"));
  const std::string good = Write("good.yaml", "seed: 1\n");
  EXPECT_THAT(std::string(LoadConfig({good}, {"run_name=m\xff"}, Environment()).status().message()),
              testing::HasSubstr("command line `run_name=m\\xff`: not valid UTF-8"));
  Environment env;
  env.Set("N", "m\xff");
  EXPECT_THAT(std::string(LoadConfig({good}, {"run_name=${oc.env:N}"}, env).status().message()),
              testing::HasSubstr("the environment variable N is not valid UTF-8"));
}

}  // namespace
}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/option_help.h"

namespace composer {
namespace {

using Variables = std::map<std::string, std::string>;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Flags {
  int nproc = 1;
  int max_restarts = 3;
  int nodes = 1;
  bool tee = false;
  std::string job, shape;

  std::vector<Option> Table() {
    return {
        {.name = "nproc",
         .aliases = {"nproc-per-node"},
         .short_name = 'n',
         .environment = {"LOCAL_WORLD_SIZE", "NPROC"},
         .metavar = "N",
         .help = "workers",
         .fallback = "1",
         .set = IntoInt(&nproc, 1, 64)},
        {.name = "max-restarts",
         .metavar = "N",
         .help = "restarts",
         .fallback = "3",
         .set = IntoInt(&max_restarts, 0, 100)},
        {.name = "tee", .short_name = 't', .help = "print all", .set = IntoBool(&tee)},
        {.name = "job", .metavar = "NAME", .help = "name", .set = IntoString(&job)},
        {.name = "nodes", .metavar = "N", .help = "nodes", .set = IntoInt(&nodes, 1, 9), .implied = "2"},
        {.name = "shape",
         .metavar = "WORD",
         .help = "shape",
         .set = IntoChoice(&shape, {"square", "oval"}),
         .choices = {"square", "oval"}},
        {.name = "quiet-one", .help = "nothing", .set = IntoBool(&tee), .hidden = true},
    };
  }
};

TEST(OptionsTest, AllSpellingsOfAValue) {
  const std::vector<std::vector<std::string>> spellings = {
      {"--nproc", "2"}, {"--nproc=2"},          {"-n", "2"},    {"-n2"},          {"-n=2"},
      {"-tn2"},         {"--nproc-per-node=2"}, {"--npr", "2"}, {"--nproc_per=2"}};
  for (const auto& arguments : spellings) {
    Flags flags;
    ASSERT_TRUE(ParseOptions(flags.Table(), arguments, {}).ok()) << arguments[0];
    EXPECT_EQ(flags.nproc, 2) << arguments[0];
  }
}

TEST(OptionsTest, DashAndUnderscoreAreEqual) {
  for (const char* spelling : {"--max-restarts=7", "--max_restarts=7"}) {
    Flags flags;
    ASSERT_TRUE(ParseOptions(flags.Table(), {spelling}, {}).ok());
    EXPECT_EQ(flags.max_restarts, 7);
  }
}

TEST(OptionsTest, AValueThatMayBeLeftOut) {
  const std::vector<std::tuple<std::vector<std::string>, int, std::vector<std::string>>> cases = {
      {{"--nodes"}, 2, {}},           {{"--nodes", "5"}, 5, {}},
      {{"--nodes=5", "7"}, 5, {"7"}}, {{"--nodes", "train.py"}, 2, {"train.py"}},
      {{"--nodes", "10"}, 2, {"10"}},  // not a value of this option
      {{"--nodes", "--tee"}, 2, {}},
  };
  for (const auto& [arguments, nodes, rest] : cases) {
    Flags flags;
    const auto parsed = ParseOptions(flags.Table(), arguments, {});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(flags.nodes, nodes);
    EXPECT_EQ(parsed->rest, rest);
  }
}

TEST(OptionsTest, StopsAtTheFirstNonFlag) {
  Flags flags;
  auto parsed = ParseOptions(flags.Table(), {"-n", "2", "train.py", "--nproc", "8", "-x"}, {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(flags.nproc, 2);
  EXPECT_THAT(parsed->rest, ElementsAre("train.py", "--nproc", "8", "-x"));
}

TEST(OptionsTest, DoubleDashEndsFlags) {
  Flags flags;
  auto parsed = ParseOptions(flags.Table(), {"--tee", "--", "--odd-name"}, {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(flags.tee);
  EXPECT_THAT(parsed->rest, ElementsAre("--odd-name"));
}

TEST(OptionsTest, FlagWinsOverEnvironmentWinsOverDefault) {
  Flags flags;
  const Environment environment(Variables{{"LOCAL_WORLD_SIZE", ""}, {"NPROC", "4"}});
  auto parsed = ParseOptions(flags.Table(), {}, environment);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(flags.nproc, 4);
  EXPECT_EQ(parsed->values[0].origin, "environment NPROC");
  EXPECT_EQ(parsed->values[1].origin, "default");
  EXPECT_EQ(parsed->values[1].value, "3");

  parsed = ParseOptions(flags.Table(), {"-n", "5"}, environment);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(flags.nproc, 5);
  EXPECT_EQ(parsed->values[0].origin, "flag -n");
  EXPECT_TRUE(parsed->Given("nproc"));
  EXPECT_FALSE(parsed->Given("tee"));
}

TEST(OptionsTest, Errors) {
  struct Case {
    std::vector<std::string> arguments;
    Environment environment;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"--nprocs", "2"}, {}, "unknown flag --nprocs (did you mean `--nproc`?)"},
      {{"--max-restrts=2"}, {}, "did you mean `--max-restarts`?"},
      {{"--nproc-per-nod"}, {}, "--nproc-per-nod needs a value"},
      {{"--n=3"}, {}, "--n could be any of --nproc, --nproc-per-node, --nodes: write more of it"},
      {{"--shape=round"}, {}, "--shape: `round` must be one of square, oval"},
      {{"-q"}, {}, "unknown flag -q"},
      {{"-tn"}, {}, "-n needs a value: N"},
      {{"-tq"}, {}, "unknown flag -tq"},
      {{"--nproc"}, {}, "--nproc needs a value: N"},
      {{"--nproc", "0"}, {}, "--nproc: `0` must be a whole number from 1 to 64"},
      {{"--nproc", "two"}, {}, "--nproc: `two` must be"},
      {{"--nproc=99999999999999999999"}, {}, "must be a whole number"},
      {{"--tee=perhaps"}, {}, "--tee: `perhaps` must be true or false"},
      {{}, Environment(Variables{{"NPROC", "-1"}}), "NPROC (--nproc): `-1` must be a whole number from 1 to 64"},
  };
  for (const Case& c : cases) {
    Flags flags;
    const auto parsed = ParseOptions(flags.Table(), c.arguments, c.environment);
    ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(c.message));
  }
}

TEST(OptionsTest, HelpNamesEveryOption) {
  Flags flags;
  const std::string help = OptionsHelp(flags.Table());
  EXPECT_THAT(help, HasSubstr("-n, --nproc N         workers [1] (env LOCAL_WORLD_SIZE)\n"));
  EXPECT_THAT(help, HasSubstr("    --job NAME        name\n"));
  EXPECT_THAT(help, HasSubstr("    --nodes[=N]       nodes\n"));
  EXPECT_THAT(help, Not(HasSubstr("quiet-one")));
}

TEST(OptionsTest, ExplainShowsValueAndOrigin) {
  EXPECT_EQ(ExplainOptions({{"nproc", "2", "flag -n"}, {"job", "", "default"}}),
            "nproc 2                        flag -n\n"
            "job   -                        default\n");
  // Long values widen their column, very long ones do not. A default that is only described is not a value.
  EXPECT_EQ(ExplainOptions({{"folder", "/a/folder/with/a/long/name/x", "flag"},
                            {"path", std::string(50, 'p'), "the YAML file"},
                            {"nproc", "one per GPU, else 1", "default"}}),
            "folder /a/folder/with/a/long/name/x flag\n"
            "path   " +
                std::string(50, 'p') + "\n" + std::string(35, ' ') +
                " the YAML file\n"
                "nproc  -                            default: one per GPU, else 1\n");
}

TEST(OptionsTest, HelpStaysWithinTheWidth) {
  const std::string help = TwoColumns({{"-n, --nproc N", "how many workers there are on this node, which is a number"},
                                       {"--a-flag-with-a-name-that-is-much-too-long N", "beside it there is no room"}},
                                      50);  // at least 24 columns for the second part
  EXPECT_EQ(help,
            "  -n, --nproc N                       how many workers there\n"
            "                                      are on this node, which\n"
            "                                      is a number\n"
            "  --a-flag-with-a-name-that-is-much-too-long N\n"
            "                                      beside it there is no\n"
            "                                      room\n");
}

}  // namespace
}  // namespace composer

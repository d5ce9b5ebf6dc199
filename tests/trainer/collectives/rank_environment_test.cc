// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/rank_environment.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(RankEnvironment, WithoutALauncherAWorldOfOne) {
  const auto env = ReadRankEnvironment(Environment());
  ASSERT_TRUE(env.ok()) << env.status();
  EXPECT_EQ(env->rank, 0);
  EXPECT_EQ(env->world_size, 1);
  EXPECT_EQ(env->local_world_size, 1);
  EXPECT_EQ(env->generation, 0u);
  EXPECT_FALSE(env->has_launcher());
  EXPECT_FALSE(env->spans_nodes());
}

TEST(RankEnvironment, AllThatALauncherTells) {
  const auto env = ReadRankEnvironment(Environment({{"RANK", "5"},
                                                    {"WORLD_SIZE", "8"},
                                                    {"LOCAL_RANK", "1"},
                                                    {"LOCAL_WORLD_SIZE", "4"},
                                                    {"NODE_RANK", "1"},
                                                    {"MASTER_ADDR", "10.0.0.1"},
                                                    {"MASTER_PORT", "7501"},
                                                    {"COMPOSER_GENERATION", "3"},
                                                    {"COMPOSER_JOB", "fashion"},
                                                    {"COMPOSER_HUB", "unix:/tmp/hub"},
                                                    {"COMPOSER_PROGRESS_PAGE", "/tmp/page"},
                                                    {"COMPOSER_NODE_ADDRESS", "10.0.0.2"}}));
  ASSERT_TRUE(env.ok()) << env.status();
  EXPECT_EQ(env->rank, 5);
  EXPECT_EQ(env->world_size, 8);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_world_size, 4);
  EXPECT_EQ(env->node_rank, 1);
  EXPECT_EQ(env->master_address, "10.0.0.1");
  EXPECT_EQ(env->master_port, 7501);
  EXPECT_EQ(env->generation, 3u);
  EXPECT_EQ(env->job, "fashion");
  EXPECT_EQ(env->hub_address, "unix:/tmp/hub");
  EXPECT_EQ(env->progress_page_path, "/tmp/page");
  EXPECT_EQ(env->node_address, "10.0.0.2");
  EXPECT_TRUE(env->has_launcher());
  EXPECT_TRUE(env->spans_nodes());
}

TEST(RankEnvironment, OfTorchrun) {
  const std::map<std::string, std::string> variables = {{"RANK", "1"},
                                                        {"WORLD_SIZE", "2"},
                                                        {"LOCAL_WORLD_SIZE", "2"},
                                                        {"MASTER_ADDR", "localhost"},
                                                        {"MASTER_PORT", "7501"},
                                                        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                        {"TORCHELASTIC_RUN_ID", "id"},
                                                        {"TORCHELASTIC_RESTART_COUNT", "2"}};
  auto env = ReadRankEnvironment(Environment(variables));
  ASSERT_TRUE(env.ok()) << env.status();
  EXPECT_FALSE(env->has_launcher());
  EXPECT_TRUE(env->agent_store);
  EXPECT_EQ(env->store_prefix, "composer/id/2");
  auto several = variables;
  several["LOCAL_WORLD_SIZE"] = "1";
  several["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  env = ReadRankEnvironment(Environment(several));
  EXPECT_FALSE(env->agent_store);
  EXPECT_EQ(env->store_prefix, "composer/id/");
}

TEST(RankEnvironment, ErrorsNameTheVariableItsValueAndWhatIsAllowed) {
  const struct {
    std::map<std::string, std::string> variables;
    const char* message;
  } cases[] = {
      {{{"WORLD_SIZE", "0"}}, "environment variable WORLD_SIZE is \"0\", it must be a number from 1 to 2147483647"},
      {{{"WORLD_SIZE", "two"}}, "environment variable WORLD_SIZE is \"two\", it must be a number from 1 to 2147483647"},
      {{{"WORLD_SIZE", ""}}, "environment variable WORLD_SIZE is \"\", it must be a number from 1 to 2147483647"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "2"}}, "environment variable RANK is \"2\", it must be a number from 0 to 1"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "-1"}}, "environment variable RANK is \"-1\", it must be a number from 0 to 1"},
      {{{"WORLD_SIZE", "2"}, {"RANK", " 1"}}, "environment variable RANK is \" 1\", it must be a number from 0 to 1"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "1.0"}}, "environment variable RANK is \"1.0\", it must be a number from 0 to 1"},
      {{{"LOCAL_WORLD_SIZE", "2"}}, "environment variable LOCAL_WORLD_SIZE is \"2\", it must be a number from 1 to 1"},
      {{{"MASTER_PORT", "65536"}},
       "environment variable MASTER_PORT is \"65536\", it must be a number from 0 to 65535"},
      {{{"WORLD_SIZE", "2"}}, "environment variable RANK is not set, but WORLD_SIZE is 2"},
      {{{"WORLD_SIZE", "4"}, {"RANK", "0"}},
       "WORLD_SIZE is 4, but the ranks have nowhere to meet: neither COMPOSER_HUB nor MASTER_ADDR and MASTER_PORT are "
       "set; start them with `composer -n 4 …`, or give both variables to each of them"},
  };
  for (const auto& c : cases) EXPECT_EQ(ReadRankEnvironment(Environment(c.variables)).status().message(), c.message);
}

}  // namespace
}  // namespace composer

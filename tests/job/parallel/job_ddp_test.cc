// Tests the keys `ddp_sync_strategy`, `ddp_config` and the activation keys of `fsdp_config` of a job's YAML.
// SPDX-License-Identifier: Apache-2.0
#include "job/parallel/job_ddp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_map.h"
#include "config/yaml.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JobDdpTest : public ::testing::Test {
 protected:
  DdpOptions Ddp(const std::string& yaml) {
    const ConfigNode document = ParseYaml(yaml, "job.yaml").value();
    ConfigReader reader(document);
    ConfigMap root = reader.root();
    const DdpOptions options = ReadDdp(root, fsdp_);
    message_ = std::string(reader.Finish().message());
    return options;
  }
  ActivationOptions Activations(const std::string& value) {
    const ConfigNode document = ParseYaml("fsdp_config: {" + value + "}", "job.yaml").value();
    ConfigReader reader(document);
    ConfigMap root = reader.root();
    const ActivationOptions options = ReadActivations(root);
    message_ = std::string(reader.Finish().message());
    return options;
  }
  std::optional<FsdpOptions> fsdp_;
  std::string message_;
};

TEST_F(JobDdpTest, Defaults) {
  const DdpOptions options = Ddp("{}");
  EXPECT_THAT(message_, IsEmpty());
  EXPECT_EQ(options.sync_strategy, DdpSyncStrategy::kSingleAutoSync);
  EXPECT_EQ(options.bucket_bytes, 25 << 20);
  EXPECT_EQ(options.first_bucket_bytes, 1 << 20);
  EXPECT_EQ(options.gradient_compression, GradientCompression::kNone);
  EXPECT_FALSE(options.find_unused_parameters);
}

TEST_F(JobDdpTest, AllKeys) {
  const DdpOptions options =
      Ddp("ddp_sync_strategy: multi_auto_sync\n"
          "ddp_config: {bucket_cap_mb: 0.5, first_bucket_cap_mb: 2, gradient_compression: bf16_sum_fp32, "
          "find_unused_parameters: true}");
  EXPECT_THAT(message_, IsEmpty());
  EXPECT_EQ(options.sync_strategy, DdpSyncStrategy::kMultiAutoSync);
  EXPECT_EQ(options.bucket_bytes, 1 << 19);
  EXPECT_EQ(options.first_bucket_bytes, 2 << 20);
  EXPECT_EQ(options.gradient_compression, GradientCompression::kBf16SumFp32);
  EXPECT_TRUE(options.find_unused_parameters);
}

TEST_F(JobDdpTest, NoShardReducesInItsReduceDtype) {
  fsdp_.emplace().strategy = ShardingStrategy::kNoShard;
  fsdp_->reduce_dtype = at::kBFloat16;
  EXPECT_EQ(Ddp("{}").gradient_compression, GradientCompression::kBf16);
  EXPECT_EQ(Ddp("ddp_config: {gradient_compression: none}").gradient_compression, GradientCompression::kNone);
}

TEST_F(JobDdpTest, MistakesAreNamed) {
  Ddp("ddp_sync_strategy: auto");
  EXPECT_THAT(message_, HasSubstr("forced_sync"));
  Ddp("ddp_config: {bucket_cap_mb: 0}");
  EXPECT_THAT(message_, HasSubstr("ddp_config.bucket_cap_mb: must be at least"));
  Ddp("ddp_config: {buckets: 3}");
  EXPECT_THAT(message_, HasSubstr("ddp_config.buckets: unknown key"));
}

TEST_F(JobDdpTest, ActivationCheckpointing) {
  EXPECT_FALSE(Activations("").checkpoint.any());
  EXPECT_EQ(Activations("activation_checkpointing: true").checkpoint.every, 1);
  EXPECT_EQ(Activations("activation_checkpointing: false").checkpoint.every, 0);
  EXPECT_EQ(Activations("activation_checkpointing: 3").checkpoint.every, 3);
  EXPECT_THAT(Activations("activation_checkpointing: GptBlock").checkpoint.layers.texts, ElementsAre("GptBlock"));
  EXPECT_THAT(Activations("activation_checkpointing: [A, B]").checkpoint.layers.texts, ElementsAre("A", "B"));
  const BlockChoice target =
      Activations("activation_checkpointing: 2, activation_checkpointing_target: ['*.mlp', Attention]").checkpoint;
  EXPECT_EQ(target.every, 2);
  EXPECT_THAT(target.layers.texts, ElementsAre("*.mlp", "Attention"));
  EXPECT_TRUE(Activations("activation_cpu_offload: true, activation_checkpointing_reentrant: false").cpu_offload);
  EXPECT_THAT(message_, IsEmpty());
  Activations("activation_checkpointing: 0");
  EXPECT_THAT(message_, HasSubstr("a number of at least 1"));
}

}  // namespace
}  // namespace composer

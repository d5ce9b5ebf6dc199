// Tests the keys parallelism_config and fsdp_config.
// SPDX-License-Identifier: Apache-2.0
#include "job/parallel/job_parallelism.h"

#include "tests/worker/named_keys.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

std::optional<FsdpOptions> Read(const std::string& yaml, Precision precision = Precision::kFp32) {
  std::optional<FsdpOptions> options;
  EXPECT_EQ(ErrorOf(yaml, [&](ConfigMap& root) { options = ReadParallelism(root, precision); }), "") << yaml;
  return options;
}
std::string Error(const std::string& yaml) {
  return ErrorOf(yaml, [](ConfigMap& root) { ReadParallelism(root, Precision::kAmpBf16); });
}

TEST(JobParallelismTest, DefaultsAndKeys) {
  EXPECT_FALSE(Read("{}"));
  EXPECT_FALSE(Read("{parallelism_config: {}}"));
  const FsdpOptions usual = *Read("{parallelism_config: {fsdp: {}}}", Precision::kAmpBf16);
  EXPECT_EQ(usual.strategy, ShardingStrategy::kFullShard);
  EXPECT_EQ(usual.param_dtype, at::kBFloat16);
  EXPECT_EQ(usual.reduce_dtype, at::kFloat);
  EXPECT_EQ(usual.backward_prefetch, BackwardPrefetch::kPost);
  EXPECT_EQ(usual.data_parallel_shard_degree, 0);
  EXPECT_EQ(usual.data_parallel_replicate_degree, 1);
  EXPECT_TRUE(usual.limit_all_gathers && usual.sync_module_states);
  EXPECT_FALSE(usual.cpu_offload || usual.forward_prefetch || usual.verbose);
  const FsdpOptions other = *Read(
      "{fsdp_config: {sharding_strategy: SHARD_GRAD_OP, mixed_precision: PURE, backward_prefetch: BACKWARD_PRE, "
      "backward_prefetch_limit: 2, forward_prefetch: true, forward_prefetch_limit: 3, limit_all_gathers: false, "
      "sync_module_states: false, cpu_offload: true, verbose: true, min_num_params: 10, "
      "data_parallel_shard_degree: 4, data_parallel_replicate_degree: -1}}",
      Precision::kAmpFp16);
  EXPECT_EQ(other.strategy, ShardingStrategy::kShardGradOp);
  EXPECT_EQ(other.param_dtype, at::kHalf);
  EXPECT_EQ(other.reduce_dtype, at::kHalf);
  EXPECT_EQ(other.backward_prefetch, BackwardPrefetch::kPre);
  EXPECT_EQ(other.backward_prefetch_limit, 2);
  EXPECT_EQ(other.forward_prefetch_limit, 3);
  EXPECT_EQ(other.min_num_params, 10);
  EXPECT_EQ(other.data_parallel_shard_degree, 4);
  EXPECT_EQ(other.data_parallel_replicate_degree, 0);
  EXPECT_TRUE(other.cpu_offload && other.forward_prefetch && other.verbose);
  EXPECT_FALSE(other.limit_all_gathers || other.sync_module_states);
}

TEST(JobParallelismTest, MixedPrecision) {
  const auto types = [](const std::string& value, Precision precision) {
    const FsdpOptions options = *Read("{fsdp_config: {mixed_precision: " + value + "}}", precision);
    return std::make_pair(options.param_dtype, options.reduce_dtype);
  };
  using Types = std::pair<at::ScalarType, at::ScalarType>;
  EXPECT_EQ(types("FULL", Precision::kAmpBf16), Types(at::kFloat, at::kFloat));
  EXPECT_EQ(types("DEFAULT", Precision::kAmpBf16), Types(at::kBFloat16, at::kFloat));
  EXPECT_EQ(types("DEFAULT", Precision::kFp32), Types(at::kFloat, at::kFloat));
  EXPECT_EQ(types("PURE", Precision::kAmpBf16), Types(at::kBFloat16, at::kBFloat16));
  EXPECT_EQ(types("{reduce_dtype: bf16}", Precision::kFp32), Types(at::kFloat, at::kBFloat16));
  EXPECT_EQ(types("{buffer_dtype: float32}", Precision::kFp32), Types(at::kFloat, at::kFloat));
  EXPECT_EQ(types("{param_dtype: float16}", Precision::kAmpFp16), Types(at::kHalf, at::kFloat));
}

TEST(JobParallelismTest, Wrapping) {
  EXPECT_TRUE(Read("{fsdp_config: {}}")->auto_wrap);
  EXPECT_FALSE(Read("{fsdp_config: {auto_wrap: false}}")->auto_wrap);
  EXPECT_TRUE(Read("{fsdp_config: {auto_wrap: true}}")->wrap.empty());
  const FsdpOptions options = *Read("{fsdp_config: {auto_wrap: [GptBlock, Other]}}");
  EXPECT_TRUE(options.auto_wrap);
  EXPECT_EQ(options.wrap.texts, (std::vector<std::string>{"GptBlock", "Other"}));
}

TEST(JobParallelismTest, TensorParallelDegree) {
  const auto degree = [](const std::string& yaml) {
    int degree = 0;
    const std::string error = ErrorOf(yaml, [&](ConfigMap& root) { degree = ReadTensorParallelDegree(root); });
    return error.empty() ? std::to_string(degree) : error;
  };
  EXPECT_EQ(degree("{}"), "1");
  EXPECT_EQ(degree("{parallelism_config: {tp: {}}}"), "1");
  EXPECT_EQ(degree("{parallelism_config: {tp: {tensor_parallel_degree: 4}}}"), "4");
  LayerPlan plan;
  const auto plan_error = [&](const std::string& yaml) {
    return ErrorOf("{parallelism_config: {tp: {layer_plan: {" + yaml + "}}}}",
                   [&](ConfigMap& root) { plan = ReadLayerPlan(root); });
  };
  EXPECT_EQ(plan_error("'*.fc': ColwiseParallel, layers.1: RowwiseParallel, Linear: GatherColwiseParallel"), "");
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].layers, "*.fc");
  EXPECT_EQ(plan[1].layers, "layers.1");
  EXPECT_EQ(plan[1].style, ParallelStyle::kRowwise);
  EXPECT_EQ(plan[2].style, ParallelStyle::kGatherColwise);
  EXPECT_EQ(plan_error("'*.q_norm': SequenceParallel"), "");
  EXPECT_EQ(plan[0].style, ParallelStyle::kSequence);
  EXPECT_THAT(plan_error("layers.0: ColumnParallel"), HasSubstr("did you mean `ColwiseParallel`?"));
  EXPECT_THAT(plan_error("layers.0: "), HasSubstr("layer_plan.layers.0: expected ColwiseParallel"));
  EXPECT_THAT(degree("{parallelism_config: {tp: {tensor_parallel_degree: 0}}}"), HasSubstr("tensor_parallel_degree"));
  EXPECT_THAT(degree("{parallelism_config: {tp: {tensor_parallel_degre: 2}}}"),
              HasSubstr("did you mean `tensor_parallel_degree`?"));
}

TEST(JobParallelismTest, ErrorsNameTheKeyAndWhatIsAllowed) {
  EXPECT_THAT(Error("{fsdp_config: {sharding_stratgy: FULL_SHARD}}"), HasSubstr("did you mean `sharding_strategy`?"));
  EXPECT_THAT(Error("{fsdp_config: {sharding_strategy: FULL_SHRD}}"), HasSubstr("did you mean `FULL_SHARD`?"));
  EXPECT_THAT(Error("{fsdp_config: {}, parallelism_config: {fsdp: {}}}"), HasSubstr("write one of them"));
  EXPECT_THAT(Error("{parallelism_config: {fdsp: {}}}"), HasSubstr("did you mean `fsdp`?"));
  EXPECT_THAT(Error("{fsdp_config: {mixed_precision: HALF}}"), HasSubstr("expected FULL, DEFAULT, PURE or {"));
  EXPECT_THAT(Error("{fsdp_config: {mixed_precision: {param_dtype: fp16}}}"), HasSubstr("`precision: amp_bf16`"));
  EXPECT_THAT(Error("{fsdp_config: {mixed_precision: {buffer_dtype: bf16}}}"),
              HasSubstr("buffers keep the model's type"));
  EXPECT_THAT(Error("{fsdp_config: {sharding_strategy: HYBRID_SHARD}}"), HasSubstr("data_parallel_replicate_degree"));
  EXPECT_THAT(Error("{fsdp_config: {data_parallel_shard_degree: 0}}"), HasSubstr("data_parallel_shard_degree"));
  EXPECT_THAT(Error("{fsdp_config: {backward_prefetch_limit: 0}}"), HasSubstr("backward_prefetch_limit"));
  EXPECT_THAT(Error("{fsdp_config: {use_orig_params: true}}"), HasSubstr("leave it out"));
}

}  // namespace
}  // namespace composer

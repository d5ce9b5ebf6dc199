"""determinism: elastic with every sharding strategy gives the weights, optimizer state and losses of one rank, bit for
bit, with dropout, and when the number of ranks or the strategy changes at restarts after kill -9."""
import unittest

import elastic_test


def fsdp(strategy, **keys):
    return {"sharding_strategy": strategy, **keys}


HYBRID = fsdp("HYBRID_SHARD", data_parallel_replicate_degree=2)


class ElasticShardingTest(elastic_test.ElasticJob):
    def test_a_hundred_steps_of_every_sharding_strategy(self):
        self.assert_as_one_rank([(ranks, fsdp(strategy)) for strategy in ("SHARD_GRAD_OP", "FULL_SHARD")
                                 for ranks in (2, 4, 8)] +
                                [(4, HYBRID), (8, HYBRID)])

    def test_in_bfloat16_with_parameters_gathered_whole(self):
        self.assert_as_one_rank([(2, None), (4, fsdp("FULL_SHARD", mixed_precision="FULL"))], precision="amp_bf16",
                                max_duration="30ba")

    def test_from_4_to_2_to_8_ranks_by_kills_fully_sharded(self):
        full = fsdp("FULL_SHARD")
        self.assert_kills_change_nothing([(4, full, 25), (2, full, 55)], 8, full)

    def test_from_4_to_2_to_8_ranks_by_kills_with_optimizer_and_gradients_sharded(self):
        grad_op = fsdp("SHARD_GRAD_OP")
        self.assert_kills_change_nothing([(4, grad_op, 25), (2, grad_op, 55)], 8, grad_op)

    def test_from_4_to_2_to_8_ranks_by_kills_in_two_replicas(self):
        self.assert_kills_change_nothing([(4, HYBRID, 25), (2, HYBRID, 55)], 8, HYBRID)

    def test_with_another_strategy_after_each_kill(self):
        self.assert_kills_change_nothing([(4, HYBRID, 25), (2, fsdp("FULL_SHARD"), 45), (4, None, 65),
                                          (2, fsdp("SHARD_GRAD_OP"), 85)], 8, HYBRID)

    def test_what_does_not_fit_is_refused_with_what_does(self):
        _, err = self.run_composer("-n", 3, self.job("three", virtual_shards=8, fsdp_config=fsdp("FULL_SHARD")),
                                   code=64)
        self.assertIn("runs on 1, 2, 4, 8 ranks, not on 3", err)
        _, err = self.run_composer("-n", 2, self.job("sums", precision="amp_bf16",
                                                     fsdp_config=fsdp("FULL_SHARD", mixed_precision="PURE")), code=64)
        self.assertIn("determinism: elastic sums gradients in float32", err)


if __name__ == "__main__":
    unittest.main()

// The requirements on every Communicator. Include this in a test file and instantiate it with a factory for each
// implementation. The factory makes a group of `size` ranks; each rank's communicator is made and used on its own
// thread:
//   INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorSuite,
//                            testing::Values(CommunicatorCase{"Threads", {1, 2, 3}, MakeThreadsGroup}));
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/spawn_ranks.h"
#include "trainer/collectives/mesh.h"
#include "trainer/collectives/tree_sum.h"
#include "trainer/core/communicator.h"

namespace composer {

// Returns a rank's communicator. Called on the rank's thread.
using RankFactory = std::function<std::unique_ptr<Communicator>(int rank)>;

struct CommunicatorCase {
  std::string name;
  std::vector<int> sizes;
  std::function<RankFactory(int size)> make_group;
};

inline void PrintTo(const CommunicatorCase& test, std::ostream* out) { *out << test.name; }

class CommunicatorSuite : public testing::TestWithParam<CommunicatorCase> {
 protected:
  // Runs body(communicator) on every rank of a new group, for each size.
  void OnRanks(const std::function<void(Communicator&)>& body) {
    for (const int size : GetParam().sizes) {
      SCOPED_TRACE(size);
      const RankFactory make = GetParam().make_group(size);
      SpawnRanks(size, [&](int rank) {
        const std::unique_ptr<Communicator> communicator = make(rank);
        EXPECT_EQ(communicator->rank(), rank);
        EXPECT_EQ(communicator->world_size(), size);
        body(*communicator);
        communicator->AllReduceSum(torch::ones({1}));  // no rank leaves while another is still connecting
      });
    }
  }
};

TEST_P(CommunicatorSuite, AllReduceSumsOnEveryRank) {
  OnRanks([](Communicator& communicator) {
    const int size = communicator.world_size();
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kLong}) {
      const at::Tensor tensor = torch::arange(6, dtype).view({2, 3}) + communicator.rank();
      communicator.AllReduceSum(tensor);
      EXPECT_TRUE(tensor.equal(torch::arange(6, dtype).view({2, 3}) * size + size * (size - 1) / 2)) << tensor;
    }
  });
}

TEST_P(CommunicatorSuite, AllRanksGetTheSameBits) {
  OnRanks([](Communicator& communicator) {
    at::Tensor sum = torch::arange(1, 1001, at::kFloat).reciprocal() * (communicator.rank() + 1) / 3;
    communicator.AllReduceSum(sum);
    const at::Tensor roots = sum.clone();
    communicator.Broadcast(roots, 0);
    EXPECT_TRUE(sum.equal(roots));
  });
}

TEST_P(CommunicatorSuite, SeveralUnderWayFinishInOrder) {
  OnRanks([](Communicator& communicator) {
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (int i = 0; i < 5; ++i) tensors.push_back(torch::full({100 + i}, 1.0 + i));
    for (const at::Tensor& tensor : tensors) {
      pending.push_back(communicator.StartAllReduceSum(tensor));
      ASSERT_NE(pending.back(), nullptr);
    }
    for (const auto& each : pending) each->Wait();
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(tensors[static_cast<size_t>(i)].eq((1.0 + i) * communicator.world_size()).all().item<bool>()) << i;
    }
  });
}

TEST_P(CommunicatorSuite, BroadcastCopiesAnyRootsTensor) {
  OnRanks([](Communicator& communicator) {
    for (int root = 0; root < communicator.world_size(); ++root) {
      for (const at::ScalarType dtype : {at::kFloat, at::kLong, at::kDouble}) {
        const at::Tensor tensor = torch::full({3, 2}, communicator.rank() * 10 + 1, dtype);
        communicator.Broadcast(tensor, root);
        EXPECT_TRUE(tensor.eq(root * 10 + 1).all().item<bool>()) << root << tensor;
      }
      const at::Tensor scalar = torch::full({}, communicator.rank(), at::kLong);  // BatchNorm's num_batches_tracked
      communicator.Broadcast(scalar, root);
      EXPECT_EQ(scalar.item<int64_t>(), root);
    }
  });
}

TEST_P(CommunicatorSuite, AllGatherJoinsTheRanksPartsInOrder) {
  OnRanks([](Communicator& communicator) {
    const int size = communicator.world_size(), rank = communicator.rank();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong, at::kByte}) {
      const at::Tensor output = torch::zeros({size, 3}, dtype);
      communicator.StartAllGather(output, torch::full({3}, rank + 1, dtype))->Wait();
      for (int from = 0; from < size; ++from) EXPECT_TRUE(output[from].eq(from + 1).all().item<bool>()) << output;
      // The all-gather is in place: the input lies where it belongs in the output.
      output.fill_(100);
      output[rank].fill_(rank + 7);
      communicator.StartAllGather(output, output[rank])->Wait();
      for (int from = 0; from < size; ++from) EXPECT_TRUE(output[from].eq(from + 7).all().item<bool>()) << output;
    }
  });
}

TEST_P(CommunicatorSuite, ReduceScatterGivesEachRankItsPartOfTheSum) {
  OnRanks([](Communicator& communicator) {
    const int size = communicator.world_size(), rank = communicator.rank();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      const at::Tensor whole = torch::arange(4 * size, dtype);
      const at::Tensor wanted = whole.narrow(0, 4 * rank, 4) * size + size * (size - 1) / 2;
      const at::Tensor output = torch::empty({4}, dtype);
      communicator.StartReduceScatterSum(output, whole + rank)->Wait();
      EXPECT_TRUE(output.equal(wanted)) << output << wanted;
      const at::Tensor input = whole + rank;
      const at::Tensor own = input.narrow(0, 4 * rank, 4);
      communicator.StartReduceScatterSum(own, input)->Wait();
      EXPECT_TRUE(own.equal(wanted)) << own << wanted;
    }
  });
}

TEST_P(CommunicatorSuite, WorksOnViewsAndTouchesNothingElse) {
  OnRanks([](Communicator& communicator) {
    const at::Tensor whole = torch::ones({10});
    communicator.AllReduceSum(whole.narrow(0, 2, 3));
    EXPECT_EQ(whole.sum().item<float>(), 7.0F + 3.0F * static_cast<float>(communicator.world_size()));
  });
}

TEST_P(CommunicatorSuite, NotANumberAndInfinityComeThrough) {
  OnRanks([](Communicator& communicator) {
    const bool last = communicator.rank() + 1 == communicator.world_size();
    const at::Tensor tensor = torch::ones({2});
    if (last) tensor[0] = std::nan("");
    if (last) tensor[1] = INFINITY;
    communicator.AllReduceSum(tensor);
    EXPECT_TRUE(tensor[0].isnan().item<bool>());
    EXPECT_TRUE(tensor[1].isinf().item<bool>());
  });
}

TEST_P(CommunicatorSuite, LargeTensors) {
  OnRanks([](Communicator& communicator) {
    const at::Tensor tensor = torch::full({3 << 20}, 0.5);  // 12 MiB
    communicator.AllReduceSum(tensor);
    EXPECT_TRUE(tensor.eq(0.5 * communicator.world_size()).all().item<bool>());
  });
}

// The terms differ widely in size, so any other order of additions gives other bits. Elements at all places of the
// buffer have the same terms, so they have the same sum.
TEST_P(CommunicatorSuite, EverySumHasTheOrderOfTheTree) {
  OnRanks([](Communicator& communicator) {
    if (!communicator.sums_in_tree_order()) return;
    const int size = communicator.world_size();
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      for (const int64_t part : {1, 5, 1000, 20'011}) {
        std::vector<at::Tensor> terms;
        std::vector<const void*> parts;
        for (int rank = 0; rank < size; ++rank) {
          terms.push_back(torch::full({part * size}, (rank % 2 == 0 ? 1e3 : -1e3) + 1.0 / (rank + 3), dtype));
          parts.push_back(terms.back().const_data_ptr());
        }
        const at::Tensor wanted = torch::empty({part * size}, dtype);
        TreeSum(dtype, parts, wanted.mutable_data_ptr(), wanted.numel());
        const at::Tensor mine = terms[static_cast<size_t>(communicator.rank())];
        const at::Tensor all = mine.clone(), scattered = torch::empty({part}, dtype);
        communicator.AllReduceSum(all);
        communicator.StartReduceScatterSum(scattered, mine.clone())->Wait();
        EXPECT_TRUE(all.equal(wanted)) << dtype << " " << part;
        EXPECT_TRUE(scattered.equal(wanted.narrow(0, 0, part))) << dtype << " " << part;
        const at::Tensor uneven = mine.narrow(0, 0, part * size - (size > 1 ? 1 : 0)).clone();
        communicator.AllReduceSum(uneven);
        EXPECT_TRUE(uneven.equal(wanted.narrow(0, 0, uneven.numel()))) << dtype << " " << part;
      }
    }
  });
}

TEST_P(CommunicatorSuite, EmptyTensors) {
  OnRanks([](Communicator& communicator) {
    const at::Tensor empty = torch::empty({0});
    communicator.AllReduceSum(empty);
    communicator.Broadcast(empty, 0);
    communicator.StartAllGather(torch::empty({0}), empty)->Wait();
    const at::Tensor one = torch::ones({1});
    communicator.AllReduceSum(one);
    EXPECT_EQ(one.item<float>(), static_cast<float>(communicator.world_size()));
  });
}

TEST_P(CommunicatorSuite, SplitsByColorAndNestedGroupsWork) {
  OnRanks([](Communicator& world) {
    const int size = world.world_size(), rank = world.rank();
    const auto parity = world.Split(rank % 2, "parity");
    EXPECT_EQ(parity->world_size(), rank % 2 == 0 ? (size + 1) / 2 : size / 2);
    EXPECT_EQ(parity->rank(), rank / 2);
    const at::Tensor sum = torch::full({3}, rank, at::kLong);
    int64_t wanted = 0;
    for (int peer = rank % 2; peer < size; peer += 2) wanted += peer;
    parity->AllReduceSum(sum);
    EXPECT_TRUE(sum.eq(wanted).all().item<bool>());
    const auto again = parity->Split(0, "again");  // a subgroup of the group
    EXPECT_EQ(again->world_size(), parity->world_size());
    const at::Tensor ones = torch::ones({2});
    again->AllReduceSum(ones);
    world.AllReduceSum(ones);  // alternates between groups and the world
    float all = 0;
    for (int peer = 0; peer < size; ++peer) all += static_cast<float>(peer % 2 == 0 ? (size + 1) / 2 : size / 2);
    EXPECT_EQ(ones[1].item<float>(), all);
  });
}

TEST_P(CommunicatorSuite, AMeshSumsAlongItsAxes) {
  OnRanks([](Communicator& world) {
    const int size = world.world_size(), rank = world.rank();
    EXPECT_THROW(Mesh(world, {.shard = size + 1}), c10::ValueError);
    Mesh flat(world, {.shard = size});
    EXPECT_EQ(&flat.shard(), &world);
    EXPECT_EQ(flat.tensor().world_size(), 1);
    if (size % 4 != 0) return;
    Mesh mesh(world, {.replicate = size / 4, .shard = 2, .tensor = 2});
    const auto sum_over = [&](Communicator& axis) {
      const at::Tensor sum = torch::full({1}, 1 << rank, at::kLong);  // one bit per rank
      axis.AllReduceSum(sum);
      return sum.item<int64_t>();
    };
    EXPECT_EQ(sum_over(mesh.tensor()), 3 << (rank / 2 * 2));
    EXPECT_EQ(sum_over(mesh.shard()), 5 << (rank / 4 * 4 + rank % 2));
    EXPECT_EQ(sum_over(mesh.data()), ((1 << size) - 1) / 3 << (rank % 2));  // every second rank
    EXPECT_EQ(mesh.replicate().world_size(), size / 4);
  });
}

TEST_P(CommunicatorSuite, CountsBytesByTheory) {
  OnRanks([](Communicator& communicator) {
    const int64_t size = communicator.world_size();
    if (size == 1) return;
    communicator.AllReduceSum(torch::ones({100 * size}));
    EXPECT_EQ(communicator.bytes_sent(), 800 * (size - 1));
    communicator.StartAllGather(torch::empty({100 * size}), torch::ones({100}))->Wait();
    EXPECT_EQ(communicator.bytes_sent(), 1200 * (size - 1));
    communicator.StartReduceScatterSum(torch::empty({100}), torch::ones({100 * size}))->Wait();
    EXPECT_EQ(communicator.bytes_sent(), 1600 * (size - 1));
    communicator.Broadcast(torch::ones({100}), 1);
    EXPECT_EQ(communicator.bytes_sent(), (communicator.rank() == 1 ? 2000 : 1600) * (size - 1));
  });
}

// With one rank a communicator may count nothing, since there is no communication.
TEST_P(CommunicatorSuite, CountsItsCollectives) {
  OnRanks([](Communicator& communicator) {
    if (communicator.world_size() == 1) return;
    const at::Tensor tensor = torch::ones({4});
    EXPECT_EQ(communicator.num_collectives(), 0);
    communicator.AllReduceSum(tensor);
    communicator.Broadcast(tensor, 0);
    communicator.StartAllReduceSum(tensor)->Wait();
    EXPECT_EQ(communicator.num_collectives(), 3);
  });
}

TEST_P(CommunicatorSuite, RefusesATensorThatIsNotContiguous) {
  OnRanks([](Communicator& communicator) {
    if (communicator.world_size() == 1) return;
    EXPECT_THROW(communicator.AllReduceSum(torch::ones({4, 4}).t().slice(0, 0, 2)), c10::ValueError);
  });
}

}  // namespace composer

// What every Communicator must do: include it in a test file and instantiate it with a factory for each implementation. The factory makes a group of
// `size` ranks; each rank's communicator is made and used on a thread of its own:
//   INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorSuite, testing::Values(CommunicatorCase{"Threads", {1, 2, 3}, MakeThreadsGroup}));
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/spawn_ranks.h"
#include "trainer/parallel/communicator.h"

namespace composer {

// A rank's communicator; called on the rank's thread.
using RankFactory = std::function<std::unique_ptr<Communicator>(int rank)>;

struct CommunicatorCase {
  std::string name;
  std::vector<int> sizes;
  std::function<RankFactory(int size)> make_group;
};

inline void PrintTo(const CommunicatorCase& test, std::ostream* out) { *out << test.name; }

class CommunicatorSuite : public testing::TestWithParam<CommunicatorCase> {
 protected:
  // body(communicator) on every rank of a new group, for each size.
  void OnRanks(const std::function<void(Communicator&)>& body) {
    for (const int size : GetParam().sizes) {
      SCOPED_TRACE(size);
      const RankFactory make = GetParam().make_group(size);
      SpawnRanks(size, [&](int rank) {
        const std::unique_ptr<Communicator> communicator = make(rank);
        EXPECT_EQ(communicator->rank(), rank);
        EXPECT_EQ(communicator->world_size(), size);
        body(*communicator);
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
      // In place: the input lies where it belongs.
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

// With one rank a communicator may count nothing: there is nothing to talk about.
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

// One rank of lost_groups_test: FOLDER RANK SIZE MEANS KIND. Runs one kind of collective until a peer is gone, writes
// the reported cause to FOLDER/cause<RANK> and exits with 69. KIND is a collective; "barrier" (an all-reduce of one
// number); or "split": all-reduces in the groups of the even and of the odd ranks, and after every 50 of them one of
// all ranks.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/types.h>
#include <unistd.h>

#include <fstream>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "trainer/collectives/host_group.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr int64_t kPart = 100'000;  // elements per rank: more than what runs in the caller

class Rank {
 public:
  Rank(std::unique_ptr<Communicator> communicator, std::string kind)
      : communicator_(std::move(communicator)), kind_(std::move(kind)) {
    if (kind_ == "split") group_ = communicator_->Split(communicator_->rank() % 2, "parity");
  }

  // Runs the i-th collective.
  void Step(int64_t i) {
    if (kind_ == "all_reduce") return communicator_->AllReduceSum(whole_);
    if (kind_ == "all_gather") return communicator_->StartAllGather(whole_, part_)->Wait();
    if (kind_ == "reduce_scatter") return communicator_->StartReduceScatterSum(part_, whole_)->Wait();
    if (kind_ == "broadcast")
      return communicator_->Broadcast(whole_, static_cast<int>(i % communicator_->world_size()));
    if (kind_ == "barrier") return communicator_->AllReduceSum(one_);
    (i % 50 == 0 ? *communicator_ : *group_).AllReduceSum(part_);
  }

 private:
  std::unique_ptr<Communicator> communicator_, group_;
  std::string kind_;
  at::Tensor whole_ = torch::zeros({kPart * communicator_->world_size()}), part_ = torch::zeros({kPart}),
             one_ = torch::zeros({1});
};

void Run(const std::string& folder, int rank, int size, const std::string& means, const std::string& kind) {
  torch::set_num_threads(1);
  HostGroupOptions options;
  options.store = c10::make_intrusive<c10d::FileStore>(folder + "/store", size);
  options.collectives = means == "shared_memory" ? HostCollectives::kSharedMemory : HostCollectives::kGloo;
  options.check_calls = means == "checked_gloo";
  options.timeout = std::chrono::minutes(5);
  options.never_destroy = true;
  Rank self(ConnectHostGroup(options, rank, size), kind);
  for (int64_t i = 1;; ++i) {
    self.Step(i);
    if (i == 100) std::ofstream(absl::StrCat(folder, "/ready", rank)) << "yes\n";
  }
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int rank = 0, size = 0;
  if (argc != 6 || !absl::SimpleAtoi(argv[2], &rank) || !absl::SimpleAtoi(argv[3], &size)) return 64;
  const std::string folder = argv[1];
  const absl::Status status = composer::CatchTorch([&] { composer::Run(folder, rank, size, argv[4], argv[5]); });
  std::ofstream(absl::StrCat(folder, "/cause", rank)) << status.ToString() << "\n";
  _exit(absl::IsUnavailable(status) ? 69 : 70);
}

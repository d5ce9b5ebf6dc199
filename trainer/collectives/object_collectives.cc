// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/object_collectives.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <exception>

namespace composer {
namespace {

at::Tensor BytesOf(const std::string& text, int64_t length) {
  at::Tensor bytes = torch::zeros({length}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), std::min(text.size(), static_cast<size_t>(length)));
  return bytes;
}

std::string TextOf(const at::Tensor& bytes, int64_t begin, int64_t size) {
  return std::string(static_cast<const char*>(bytes.const_data_ptr()) + begin, static_cast<size_t>(size));
}

std::vector<double> Sizes(size_t own, Communicator& communicator) {
  std::vector<double> sizes(static_cast<size_t>(communicator.world_size()));
  sizes[static_cast<size_t>(communicator.rank())] = static_cast<double>(own);
  communicator.AllReduceSum(absl::MakeSpan(sizes));
  return sizes;
}

}  // namespace

std::vector<std::string> AllGatherBytes(const std::string& own, Communicator& communicator) {
  if (communicator.world_size() == 1) return {own};
  const std::vector<double> sizes = Sizes(own.size(), communicator);
  const auto longest = static_cast<int64_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::string> all(sizes.size());
  if (longest == 0) return all;
  const at::Tensor sent = BytesOf(own, longest).to(communicator.device());
  at::Tensor gathered = torch::empty({longest * communicator.world_size()}, sent.options());
  communicator.StartAllGather(gathered, sent)->Wait();
  gathered = gathered.cpu();
  for (size_t rank = 0; rank < all.size(); ++rank)
    all[rank] = TextOf(gathered, static_cast<int64_t>(rank) * longest, static_cast<int64_t>(sizes[rank]));
  return all;
}

std::string BroadcastBytes(const std::string& own, int root, Communicator& communicator) {
  if (communicator.world_size() == 1) return own;
  double size = communicator.rank() == root ? static_cast<double>(own.size()) : 0;
  communicator.AllReduceSum(absl::MakeSpan(&size, 1));
  const auto length = static_cast<int64_t>(size);
  if (length == 0) return "";
  at::Tensor bytes = BytesOf(communicator.rank() == root ? own : std::string(), length).to(communicator.device());
  communicator.Broadcast(bytes, root);
  return TextOf(bytes.cpu(), 0, length);
}

void LocalRankZeroFirst(int local_rank, Communicator& communicator, absl::FunctionRef<void()> fn) {
  const auto meet = [&] {
    double nothing = 0;
    communicator.AllReduceSum(absl::MakeSpan(&nothing, 1));
  };
  std::exception_ptr thrown;
  const auto call = [&] {
    try {
      fn();
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  if (local_rank == 0) call();
  meet();
  if (local_rank != 0) call();
  meet();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace composer

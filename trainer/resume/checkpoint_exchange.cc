// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/checkpoint_exchange.h"

#include <torch/types.h>

#include <exception>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

absl::Status Lost(const std::exception& error) {
  const absl::string_view message = error.what();
  return absl::UnavailableError(absl::StrCat("cannot pass on a checkpoint: ", message.substr(0, message.find('\n'))));
}

}  // namespace

absl::Status CommunicatorExchange::Broadcast(absl::Span<char> bytes, int root) try {
  if (bytes.empty()) return absl::OkStatus();
  const at::NoGradGuard no_grad;
  const at::Tensor host =
      at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::TensorOptions(at::kByte));
  const at::Tensor there = host.to(communicator_.device());  // on the CPU this is `host` itself
  communicator_.Broadcast(there, root);
  if (!there.is_cpu() && rank() != root) host.copy_(there);
  return absl::OkStatus();
} catch (const std::exception& error) {
  return Lost(error);
}

absl::StatusOr<bool> CommunicatorExchange::All(bool value) try {
  double failures = value ? 0 : 1;
  communicator_.AllReduceSum(absl::MakeSpan(&failures, 1));
  return failures == 0;
} catch (const std::exception& error) {
  return Lost(error);
}

// The name is equal on all ranks, which have made the same collectives, and unique, since a load makes some.
absl::StatusOr<std::unique_ptr<ByteExchange>> CommunicatorExchange::Split(int color) try {
  const std::string name = absl::StrCat("load_", communicator_.num_collectives());
  return std::unique_ptr<ByteExchange>(new CommunicatorExchange(communicator_.Split(color, name)));
} catch (const std::exception& error) {
  return Lost(error);
}

}  // namespace composer

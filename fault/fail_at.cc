// SPDX-License-Identifier: Apache-2.0
#include "fault/fail_at.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "trainer/core/state.h"
#include "trainer/core/torch_status.h"

namespace composer {

// Observes the start of collectives, as a profiler would.
class FailAt::AtCollective final : public Tracer {
 public:
  explicit AtCollective(FailAt& owner) : owner_(owner), left_(owner.options_.nth) {}
  Span Begin(const TraceName& name) override {
    if (name.name == owner_.options_.collective && left_.fetch_sub(1) == 1) ThrowIfError(owner_.Fail());
    return 0;
  }
  void End(Span span) override {}
  void Instant(const TraceName& name) override {}
  void Counter(const TraceName& name, double value) override {}

 private:
  FailAt& owner_;
  std::atomic<int> left_;
};

FailAt::FailAt(const Options& options) : options_(options) {
  if (options_.armed && !options_.collective.empty()) at_collective_ = std::make_unique<AtCollective>(*this);
}

FailAt::~FailAt() = default;

absl::Status FailAt::Run(Event event, State& state, Logger& logger) {
  if (!options_.armed || state.identity.rank != options_.rank || state.timestamp.batch != options_.batch)
    return absl::OkStatus();
  if (at_collective_ == nullptr) return Fail();
  state.tracer = at_collective_.get();
  return absl::OkStatus();
}

absl::Status FailAt::Fail() {
  switch (options_.how) {
    case How::kKill:
      kill(getpid(), SIGKILL);
      break;
    case How::kAbort:
      kill(getpid(), SIGABRT);
      break;
    case How::kExit:
      _exit(70);
    case How::kThrow:
      return absl::InternalError(
          absl::StrCat("asked to fail on rank ", options_.rank, " after batch ", options_.batch));
    case How::kHang:
      break;
  }
  for (;;) pause();
}

}  // namespace composer

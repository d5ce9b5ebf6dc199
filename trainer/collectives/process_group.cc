// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/process_group.h"

#include <signal.h>

#include <exception>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

// Gloo writes to its peers by writev. If a peer is gone, the signal's default would end this process without a word
// about which one; ignored, the write fails, and the collective throws.
void IgnoreBrokenPipes() {
  struct sigaction now = {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> ConnectGlooGroup(const GlooGroupOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  IgnoreBrokenPipes();
  const std::string address = options.address.empty() ? "127.0.0.1" : options.address;
  try {
    auto gloo = Gloo::Options::create(options.timeout);
    gloo->devices.push_back(Gloo::createDeviceForHostname(address));
    return c10::make_intrusive<Gloo>(options.store, options.rank, options.world_size, gloo);
  } catch (const c10::DistError&) {
    throw;
  } catch (const c10::Error& error) {
    C10_THROW_ERROR(DistBackendError, absl::StrCat("rank ", options.rank, " cannot connect at ", address, ": ",
                                                   error.what_without_backtrace()));
  } catch (const std::exception& error) {  // Gloo's errors are std::runtime_error
    C10_THROW_ERROR(DistBackendError,
                    absl::StrCat("rank ", options.rank, " cannot connect at ", address, ": ", error.what()));
  }
}

void NeverDestroy(const c10::intrusive_ptr<c10d::Backend>& group) {
  c10::intrusive_ptr<c10d::Backend> one_more = group;
  one_more.release();  // the reference count never falls to zero
}

}  // namespace composer

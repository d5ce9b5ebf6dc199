// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace composer::mock {
namespace {

uintptr_t Map(int file, size_t bytes, int protection) {
  void* view = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (view == MAP_FAILED) abort();
  return reinterpret_cast<uintptr_t>(view);
}

void Say(const char* text) { (void)!write(STDERR_FILENO, text, strlen(text)); }

void OnCrash(int signal, siginfo_t* info, void*) {
  if (DeviceArena().Contains(info->si_addr)) {
    Say("mock accelerator: the host touched device memory\n");
  } else if (PinnedArena().Contains(info->si_addr)) {
    Say("mock accelerator: the host touched pinned memory of a copy that it has not waited for\n");
  }
  std::signal(signal, SIG_DFL);  // the access is made again and ends the process
}

}  // namespace

Arena::Arena(const char* name, size_t bytes, bool host_may_touch) : size_(bytes) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) abort();
  begin_ = Map(file, bytes, host_may_touch ? PROT_READ | PROT_WRITE : PROT_NONE);
  kernel_begin_ = Map(file, bytes, PROT_READ | PROT_WRITE);
  close(file);
}

const Arena& DeviceArena() {
  static const Arena& arena = *new Arena("mock-device", kDevices * kDeviceBytes, false);
  return arena;
}

const Arena& PinnedArena() {
  static const Arena& arena = *new Arena("mock-pinned", size_t{2} << 30, true);
  return arena;
}

void ExplainCrashes() {
  DeviceArena();
  PinnedArena();
  struct sigaction action = {};
  action.sa_sigaction = &OnCrash;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace composer::mock

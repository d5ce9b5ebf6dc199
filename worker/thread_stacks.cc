// SPDX-License-Identifier: Apache-2.0
#include "worker/thread_stacks.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/debugging/symbolize.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/machine_stats.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int kMaxFrames = 64;
constexpr int kOwnFrames = 2;  // the handler's, and the one through which it returns
constexpr int64_t kMaxProcFile = 4096;
constexpr absl::Duration kAnswerLimit = absl::Seconds(1);

struct Slot {
  pid_t thread = 0;
  std::array<void*, kMaxFrames> frames{};
  int count = 0;
  std::atomic<bool> done{false};
};

struct Request {
  explicit Request(size_t threads) : slots(threads) {}
  std::vector<Slot> slots;
};

ABSL_CONST_INIT absl::Mutex one_request(absl::kConstInit);
std::atomic<Request*> current{nullptr};
std::atomic<int> inside{0};  // handlers that may use `current`

// Uses only what a handler may: backtrace() has loaded its library before.
void TakeOwnStack(int) {
  const int error = errno;
  inside.fetch_add(1);
  if (Request* request = current.load(); request != nullptr) {
    const auto self = static_cast<pid_t>(syscall(SYS_gettid));
    for (Slot& slot : request->slots) {
      if (slot.thread != self || slot.done.load()) continue;
      slot.count = backtrace(slot.frames.data(), kMaxFrames);
      slot.done.store(true);
    }
  }
  inside.fetch_sub(1);
  errno = error;
}

int StackSignal() { return SIGRTMIN + 6; }

void InstallHandler() {
  std::array<void*, 4> frames{};
  backtrace(frames.data(), static_cast<int>(frames.size()));  // loads the library that unwinds
  struct sigaction action{};
  action.sa_handler = TakeOwnStack;
  action.sa_flags = SA_RESTART;
  sigaction(StackSignal(), &action, nullptr);
}

std::string ProcFile(pid_t thread, absl::string_view name) {
  const auto text = ReadFile(absl::StrCat("/proc/self/task/", thread, "/", name), kMaxProcFile);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

ThreadStack Facts(pid_t thread) {
  ThreadStack stack{.thread = thread, .name = ProcFile(thread, "comm"), .kernel = ProcFile(thread, "wchan")};
  const std::string stat = ProcFile(thread, "stat");
  const std::vector<absl::string_view> fields = FieldsOfProcStat(stat);
  if (!fields.empty() && !fields[0].empty()) stack.state = fields[0][0];
  if (stack.kernel == "0") stack.kernel.clear();
  return stack;
}

std::vector<pid_t> OtherThreads() {
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  std::vector<pid_t> threads;
  std::error_code error;
  std::filesystem::directory_iterator at("/proc/self/task", error), end;
  for (; !error && at != end; at.increment(error)) {
    pid_t thread = 0;
    if (absl::SimpleAtoi(at->path().filename().string(), &thread) && thread != self) threads.push_back(thread);
  }
  std::sort(threads.begin(), threads.end());
  return threads;
}

// Returns "composer::TrainLoop::Step() (composer_worker)".
std::string DescribeFrame(void* frame, bool innermost) {
  void* const address = static_cast<char*>(frame) - (innermost ? 0 : 1);  // of the call, not of what follows it
  std::array<char, 512> name{};
  Dl_info info{};
  const bool known = dladdr(address, &info) != 0 && info.dli_fname != nullptr;
  const std::string library = known ? BaseName(info.dli_fname) : "?";
  if (absl::Symbolize(address, name.data(), static_cast<int>(name.size())))
    return absl::StrCat(name.data(), " (", library, ")");
  const auto offset =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(known ? info.dli_fbase : nullptr);
  return absl::StrFormat("%s+0x%x", library, offset);
}

}  // namespace

std::vector<ThreadStack> TakeStacks(absl::Duration limit) {
  const absl::MutexLock lock(&one_request);
  InstallHandler();
  const std::vector<pid_t> threads = OtherThreads();
  std::vector<ThreadStack> stacks;
  auto* const request = new Request(threads.size());
  for (size_t i = 0; i < threads.size(); ++i) {
    request->slots[i].thread = threads[i];
    stacks.push_back(Facts(threads[i]));  // before the signal wakes it
  }
  current.store(request);
  for (const pid_t thread : threads) syscall(SYS_tgkill, getpid(), thread, StackSignal());
  const absl::Time deadline = absl::Now() + limit;
  const auto all_done = [&] {
    return std::all_of(request->slots.begin(), request->slots.end(), [](const Slot& slot) { return slot.done.load(); });
  };
  while (!all_done() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  current.store(nullptr);
  for (size_t i = 0; i < stacks.size(); ++i) {
    const Slot& slot = request->slots[i];
    if (slot.done.load() && slot.count > kOwnFrames)
      stacks[i].frames.assign(slot.frames.begin() + kOwnFrames, slot.frames.begin() + slot.count);
  }
  // A handler that began before the deadline may still write into its slot.
  while (inside.load() > 0 && absl::Now() < deadline + limit) absl::SleepFor(absl::Milliseconds(1));
  if (inside.load() == 0) delete request;
  return stacks;
}

std::string DescribeStacks(const std::vector<ThreadStack>& stacks) {
  std::map<void*, std::string> frames;
  std::vector<std::pair<const ThreadStack*, std::vector<pid_t>>> groups;
  for (const ThreadStack& stack : stacks) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      const ThreadStack& first = *group.first;
      return first.name == stack.name && first.frames == stack.frames && first.kernel == stack.kernel &&
             first.thread != getpid();
    });
    if (same != groups.end()) same->second.push_back(stack.thread);
    if (same == groups.end()) groups.push_back({&stack, {stack.thread}});
  }
  std::string text;
  for (const auto& [stack, threads] : groups) {
    absl::StrAppend(&text, "\n", threads.size() == 1 ? "thread" : "threads");
    for (const pid_t thread : threads) absl::StrAppend(&text, " ", thread);
    absl::StrAppend(&text, " ", Printable(stack->name), stack->thread == getpid() ? ", the main thread" : "", ", ",
                    std::string(1, stack->state), stack->kernel.empty() ? "" : absl::StrCat(" in ", stack->kernel),
                    stack->frames.empty() ? ": does not answer\n" : ":\n");
    for (size_t i = 0; i < stack->frames.size(); ++i) {
      std::string& line = frames[stack->frames[i]];
      if (line.empty()) line = DescribeFrame(stack->frames[i], i == 0);
      absl::StrAppendFormat(&text, "  #%-2d %s\n", i, line);
    }
  }
  return text;
}

absl::Status WriteStacks(const std::string& folder, int rank) {
  const absl::Time now = absl::Now();
  const std::vector<ThreadStack> stacks = TakeStacks(kAnswerLimit);
  const std::string path = JoinPath(folder, absl::StrFormat("stacks-rank-%05d.txt", rank));
  const std::string title = absl::StrFormat("rank %d (pid %d) at %s: %d threads\n", rank, getpid(),
                                            absl::FormatTime(now, absl::UTCTimeZone()), stacks.size());
  RETURN_IF_ERROR(AtomicWriteFile(path, absl::StrCat(title, DescribeStacks(stacks)), {.mode = 0600}));
  absl::FPrintF(stderr, "stacks of %d threads: %s\n", stacks.size(), path);
  return absl::OkStatus();
}

}  // namespace composer

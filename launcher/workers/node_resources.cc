// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/node_resources.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/cleanup/cleanup.h"
#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/file.h"

namespace composer {
namespace {

// Returns the port that could be bound; 0 asks for any.
absl::StatusOr<int> BindOnce(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus(errno, "make", "a socket");
  const absl::Cleanup close_fd = [fd] { close(fd); };
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "find a free port on", "this machine");
  }
  return ntohs(address.sin_port);
}

}  // namespace

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> CpuShare(const std::vector<int>& cpus, int workers, int local_rank) {
  const int count = static_cast<int>(cpus.size());
  if (workers <= 1 || count < workers) return {};
  const int base = count / workers, larger = count % workers;
  const int begin = local_rank * base + std::min(local_rank, larger);
  const int size = base + (local_rank < larger ? 1 : 0);
  return {cpus.begin() + begin, cpus.begin() + begin + size};
}

int VisibleGpus(const Environment& environment, const std::string& device_folder) {
  if (const auto visible = environment.Get("CUDA_VISIBLE_DEVICES"); visible.has_value()) {
    const std::vector<std::string> devices = absl::StrSplit(*visible, ',', absl::SkipWhitespace());
    // CUDA stops at the first invalid device.
    const auto end = std::find_if(devices.begin(), devices.end(), [](const std::string& d) { return d[0] == '-'; });
    return static_cast<int>(end - devices.begin());
  }
  const auto names = ListDir(device_folder);
  if (!names.ok()) return 0;
  return static_cast<int>(std::count_if(names->begin(), names->end(), [](const std::string& name) {
    const absl::string_view number = absl::StripPrefix(name, "nvidia");
    return number.size() != name.size() && !number.empty() &&
           std::all_of(number.begin(), number.end(), absl::ascii_isdigit);
  }));
}

absl::StatusOr<int> FreePort() {
  constexpr int kFirst = 20000, kTries = 64;
  std::string range = ReadFile("/proc/sys/net/ipv4/ip_local_port_range").value_or("32768 60999");
  const int end = std::clamp(std::atoi(range.c_str()), kFirst, 65536);
  absl::BitGen random;
  for (int i = 0; i < kTries && end > kFirst; ++i) {
    if (const auto port = BindOnce(absl::Uniform(random, kFirst, end)); port.ok()) return port;
  }
  return BindOnce(0);
}

}  // namespace composer

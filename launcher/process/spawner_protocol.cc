// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/spawner_protocol.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace composer {
namespace {

constexpr size_t kDescriptorBytes = kSpawnDescriptors * sizeof(int);

struct alignas(cmsghdr) ControlBuffer {
  char bytes[CMSG_SPACE(kDescriptorBytes)] = {};
};

}  // namespace

absl::Status SendRequest(int socket, const SpawnerRequest& request,
                         const std::array<int, kSpawnDescriptors>* descriptors) {
  iovec part = {const_cast<SpawnerRequest*>(&request), sizeof(request)};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control;
  if (descriptors != nullptr) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(kDescriptorBytes);
    std::memcpy(CMSG_DATA(header), descriptors->data(), kDescriptorBytes);
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) return absl::UnavailableError("the spawner process is gone");
    if (errno != EINTR) return ErrnoStatus(errno, "send to", "the spawner");
  }
  return absl::OkStatus();
}

absl::StatusOr<ReceivedRequest> ReceiveRequest(int socket) {
  ReceivedRequest result;
  iovec part = {&result.request, sizeof(result.request)};
  ControlBuffer control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  ssize_t size = 0;
  do {
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof(result.request)) return absl::UnavailableError("the launcher is gone");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(kDescriptorBytes)) {
    std::memcpy(result.descriptors.data(), CMSG_DATA(header), kDescriptorBytes);
  }
  return result;
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "rendezvous/transport/job_certificate.h"

namespace composer {
namespace {

constexpr size_t kRandomBytes = 32;

absl::Status Unfit(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the token file ", path, " ", why));
}

absl::Status CheckOwner(int fd, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot look at", path);
  if (!S_ISREG(info.st_mode)) return Unfit(path, "is not a plain file");
  if (info.st_uid != geteuid() && info.st_uid != 0) return Unfit(path, "belongs to another user");
  if ((info.st_mode & 0027) != 0) return Unfit(path, absl::StrCat("is open to others: chmod 600 ", path));
  return absl::OkStatus();
}

// Writes a new token to a private temporary file beside `path` and returns its name.
absl::StatusOr<std::string> WriteNewToken(const std::string& path) {
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);  // creates it with mode 0600
  if (fd < 0) return ErrnoStatus(errno, "cannot make a token in", DirName(path));
  const std::string text = RandomHex(kRandomBytes) + "\n";
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (written) return temporary;
  unlink(temporary.c_str());
  return ErrnoStatus(error, "cannot write", temporary);
}

}  // namespace

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    const int error = errno;
    if (error == ENOENT) return absl::NotFoundError(absl::StrCat("there is no token file ", path));
    return absl::InvalidArgumentError(ErrnoStatus(error, "cannot read the token file", path).message());
  }
  const absl::Cleanup close_fd = [fd] { close(fd); };
  RETURN_IF_ERROR(CheckOwner(fd, path));
  char buffer[kMaxTokenBytes + 2];
  const ssize_t count = read(fd, buffer, sizeof(buffer));
  if (count < 0) return absl::InvalidArgumentError(ErrnoStatus(errno, "cannot read", path).message());
  if (count == sizeof(buffer)) return Unfit(path, absl::StrCat("has more than ", kMaxTokenBytes, " bytes"));
  const absl::string_view token = absl::StripAsciiWhitespace(absl::string_view(buffer, static_cast<size_t>(count)));
  if (token.empty()) return Unfit(path, "is empty");
  return std::string(token);
}

absl::StatusOr<std::string> ReadOrMakeToken(const std::string& path) {
  absl::StatusOr<std::string> token = ReadToken(path);
  if (!absl::IsNotFound(token.status())) return token;
  RETURN_IF_ERROR(MakePrivateDir(DirName(path)));
  ASSIGN_OR_RETURN(const std::string temporary, WriteNewToken(path));
  const int error = link(temporary.c_str(), path.c_str()) == 0 ? 0 : errno;  // fails if another launcher was faster
  unlink(temporary.c_str());
  if (error != 0 && error != EEXIST) return ErrnoStatus(error, "cannot make", path);
  return ReadToken(path);
}

}  // namespace composer

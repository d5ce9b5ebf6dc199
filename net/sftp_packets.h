// The packets of SFTP, version 3, which every SSH server speaks: what we ask, and a safe reader of what it answers.
// Pure. Source: draft-ietf-secsh-filexfer-02; OpenSSH's PROTOCOL file for its extensions. Fuzzed:
// tests/fuzz/sftp_packets_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

enum class SftpRequest : uint8_t {
  kInit = 1,
  kOpen = 3,
  kClose = 4,
  kRead = 5,
  kWrite = 6,
  kOpenDir = 11,
  kReadDir = 12,
  kRemove = 13,
  kMakeDir = 14,
  kRemoveDir = 15,
  kStat = 17,
  kExtended = 200
};

// Flags of an open.
inline constexpr uint32_t kSftpRead = 1, kSftpWrite = 2, kSftpCreate = 8, kSftpExclusive = 32;
inline constexpr size_t kMostSftpPacket = size_t{1} << 20;  // of the server; OpenSSH sends 256 KiB at most
inline constexpr size_t kSftpDataBytes = 32768;             // of one read or write, as every server takes it

// A packet under construction.
class SftpPacket {
 public:
  explicit SftpPacket(SftpRequest type) : body_(1, static_cast<char>(type)) {}
  SftpPacket& Number(uint32_t value);
  SftpPacket& Long(uint64_t value);
  SftpPacket& Text(absl::string_view value);
  // Returns the bytes to send.
  std::string Finish() const;

 private:
  std::string body_;
};

struct SftpEntry {
  std::string name;
  bool is_folder = false, is_file = false;
};

struct SftpAnswer {
  enum class Kind { kStatus, kHandle, kData, kNames, kAttributes };
  Kind kind = Kind::kStatus;
  uint32_t id = 0;
  uint32_t code = 0;  // of kStatus: the server's
  std::string text;   // of kStatus its message, of kHandle the handle, of kData the bytes
  std::vector<SftpEntry> names;
  int64_t size = -1;  // of kAttributes; -1: not given
};

// `packet` is without its length. kInternal for what is not an answer.
absl::StatusOr<SftpAnswer> ParseSftpAnswer(absl::string_view packet);
// Checks a server's first packet: kUnimplemented if it does not speak version 3.
absl::Status CheckSftpVersion(absl::string_view packet);

// Returns the status of an answer's code: OK, kOutOfRange for the end of a file, kNotFound, kPermissionDenied,
// kUnimplemented, else kInternal with the server's message.
absl::Status StatusOfSftp(const SftpAnswer& answer);

}  // namespace composer

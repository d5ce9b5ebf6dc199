// SPDX-License-Identifier: Apache-2.0
#include "net/sftp_packets.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr uint32_t kHasSize = 1, kHasOwner = 2, kHasMode = 4, kHasTimes = 8, kHasMore = 0x80000000;
constexpr uint32_t kModeKind = 0170000, kModeFolder = 0040000, kModeFile = 0100000;

void AppendBigEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = bytes; i-- > 0;) *out += static_cast<char>(value >> (8 * i) & 0xff);
}

// Takes values off the front; after the first that is not there, ok() is false and all are empty.
class SftpReader {
 public:
  explicit SftpReader(absl::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  bool AtEnd() const { return bytes_.empty(); }
  uint64_t Number(size_t width) {
    uint64_t value = 0;
    for (const char byte : Take(width)) value = value << 8 | static_cast<uint8_t>(byte);
    return value;
  }
  uint32_t Word() { return static_cast<uint32_t>(Number(4)); }
  absl::string_view Text() { return Take(Word()); }

 private:
  absl::string_view Take(size_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = "";
      return "";
    }
    const absl::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  absl::string_view bytes_;
  bool ok_ = true;
};

struct SftpAttributes {
  int64_t size = -1;
  uint32_t mode = 0;
};

SftpAttributes ReadAttributes(SftpReader& reader) {
  SftpAttributes attributes;
  const uint32_t flags = reader.Word();
  if ((flags & kHasSize) != 0) attributes.size = static_cast<int64_t>(reader.Number(8) & INT64_MAX);
  if ((flags & kHasOwner) != 0) reader.Number(8);
  if ((flags & kHasMode) != 0) attributes.mode = reader.Word();
  if ((flags & kHasTimes) != 0) reader.Number(8);
  if ((flags & kHasMore) != 0) {
    for (uint32_t left = reader.Word(); left > 0 && reader.ok(); --left) {
      reader.Text();
      reader.Text();
    }
  }
  return attributes;
}

}  // namespace

SftpPacket& SftpPacket::Number(uint32_t value) {
  AppendBigEndian(value, 4, &body_);
  return *this;
}

SftpPacket& SftpPacket::Long(uint64_t value) {
  AppendBigEndian(value, 8, &body_);
  return *this;
}

SftpPacket& SftpPacket::Text(absl::string_view value) {
  Number(static_cast<uint32_t>(value.size()));
  body_.append(value.data(), value.size());
  return *this;
}

std::string SftpPacket::Finish() const {
  std::string packet;
  AppendBigEndian(body_.size(), 4, &packet);
  return packet + body_;
}

absl::StatusOr<SftpAnswer> ParseSftpAnswer(absl::string_view packet) {
  SftpReader reader(packet);
  SftpAnswer answer;
  const uint64_t type = reader.Number(1);
  answer.id = reader.Word();
  switch (type) {
    case 101:
      answer.code = reader.Word();
      if (!reader.AtEnd()) answer.text = absl::CHexEscape(reader.Text().substr(0, 200));
      break;
    case 102:
    case 103:
      answer.kind = type == 102 ? SftpAnswer::Kind::kHandle : SftpAnswer::Kind::kData;
      answer.text = std::string(reader.Text());
      break;
    case 104:
      answer.kind = SftpAnswer::Kind::kNames;
      for (uint32_t left = reader.Word(); left > 0 && reader.ok(); --left) {
        const absl::string_view name = reader.Text();
        reader.Text();  // as `ls -l` shows it
        const uint32_t kind = ReadAttributes(reader).mode & kModeKind;
        if (reader.ok()) answer.names.push_back({std::string(name), kind == kModeFolder, kind == kModeFile});
      }
      break;
    case 105:
      answer.kind = SftpAnswer::Kind::kAttributes;
      answer.size = ReadAttributes(reader).size;
      break;
    default:
      return absl::InternalError(absl::StrCat("the SFTP server sent a packet of type ", type));
  }
  if (!reader.ok()) return absl::InternalError("the SFTP server sent a packet that ends early");
  return answer;
}

absl::Status CheckSftpVersion(absl::string_view packet) {
  SftpReader reader(packet);
  if (reader.Number(1) != 2) return absl::InternalError("it does not answer as an SFTP server");
  const uint32_t version = reader.Word();
  if (reader.ok() && version == 3) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the server speaks version ", version, " of SFTP, not 3"));
}

absl::Status StatusOfSftp(const SftpAnswer& answer) {
  if (answer.kind != SftpAnswer::Kind::kStatus || answer.code == 0) return absl::OkStatus();
  switch (answer.code) {
    case 1:
      return absl::OutOfRangeError("end of file");
    case 2:
      return absl::NotFoundError("No such file");
    case 3:
      return absl::PermissionDeniedError("Permission denied");
    case 8:
      return absl::UnimplementedError(answer.text);
    default:
      return absl::InternalError(absl::StrCat(answer.text.empty() ? "Failure" : answer.text, " (", answer.code, ")"));
  }
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "data/codec/tar.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kMaxHeader = size_t{1} << 20;  // of a name, or of pax records

// Until the first 0, or the whole field.
absl::string_view Text(absl::string_view field) { return field.substr(0, field.find('\0')); }

// A number in octal digits, or with the first bit set in the bytes themselves, as GNU has it.
std::optional<uint64_t> Number(absl::string_view field) {
  uint64_t value = 0;
  if ((field[0] & 0x80) != 0) {
    if ((field[0] & 0x7f) != 0) return std::nullopt;  // negative, or beyond any size
    for (const char c : field.substr(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(c);
    }
    return value;
  }
  bool ended = false;
  for (const char c : field) {
    if (c == ' ' || c == '\0') {
      ended = ended || value > 0;
      continue;
    }
    if (ended || c < '0' || c > '7' || value >> 60 != 0) return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

bool IsZeros(absl::string_view block) { return block.find_first_not_of('\0') == absl::string_view::npos; }

// The sum of the header's bytes, its own field taken as spaces.
bool HasItsChecksum(absl::string_view header) {
  uint64_t sum = 8 * ' ';
  for (size_t i = 0; i < kBlock; ++i) sum += i >= 148 && i < 156 ? 0 : static_cast<uint8_t>(header[i]);
  return Number(header.substr(148, 8)) == sum;
}

class Reader {
 public:
  explicit Reader(absl::string_view archive) : archive_(archive) {}

  absl::StatusOr<std::vector<TarEntry>> Read() {
    while (at_ < archive_.size()) {
      if (archive_.size() - at_ < kBlock) return Damaged("it is cut off in a header");
      const absl::string_view header = archive_.substr(at_, kBlock);
      if (IsZeros(header)) break;
      if (!HasItsChecksum(header))
        return Damaged("this is not a header of a tar archive (a compressed one is not read)");
      RETURN_IF_ERROR(Member(header));
    }
    return std::move(entries_);
  }

 private:
  absl::Status Damaged(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat("at byte ", at_, ": ", what));
  }

  absl::Status Member(absl::string_view header) {
    const char type = header[156];
    std::optional<uint64_t> size = Number(header.substr(124, 12));
    const bool describes = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (size_.has_value() && !describes) size = size_;
    if (!size.has_value() || *size > archive_.size() - at_ - kBlock)
      return Damaged("a file is longer than the archive");
    if (describes && *size > kMaxHeader) return Damaged("a header is longer than 1 MiB");
    const absl::string_view bytes = archive_.substr(at_ + kBlock, *size);
    if (type == 'x' || type == 'g') {
      RETURN_IF_ERROR(PaxRecords(bytes, /*apply=*/type == 'x'));
    } else if (type == 'L') {
      name_ = std::string(Text(bytes));
    } else if (type == 'S' || type == 'M') {
      return absl::UnimplementedError(absl::StrCat("at byte ", at_, ": sparse files and volumes are not read"));
    } else if (type != 'K') {
      if (type == '0' || type == '\0' || type == '7') entries_.push_back({name_.value_or(HeaderName(header)), bytes});
      name_.reset();
      size_.reset();
    }
    at_ += kBlock + std::min((*size + kBlock - 1) / kBlock * kBlock, archive_.size() - at_ - kBlock);
    return absl::OkStatus();
  }

  static std::string HeaderName(absl::string_view header) {
    const absl::string_view name = Text(header.substr(0, 100)), prefix = Text(header.substr(345, 155));
    const bool posix = header.substr(257, 6) == absl::string_view("ustar\0", 6);  // GNU keeps times there
    return posix && !prefix.empty() ? absl::StrCat(prefix, "/", name) : std::string(name);
  }

  // "LENGTH KEY=VALUE\n", one after the other.
  absl::Status PaxRecords(absl::string_view records, bool apply) {
    while (!records.empty() && records[0] != '\0') {
      const size_t space = records.find(' ');
      uint64_t length = 0;
      if (space == absl::string_view::npos || !absl::SimpleAtoi(records.substr(0, space), &length) ||
          length <= space + 1 || length > records.size() || records[length - 1] != '\n')
        return Damaged("a pax header is damaged");
      const absl::string_view record = records.substr(space + 1, length - space - 2);
      const size_t equals = record.find('=');
      if (equals == absl::string_view::npos) return Damaged("a pax header is damaged");
      const absl::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
      if (apply && key == "path") name_ = std::string(value);
      if (apply && key == "size") {
        uint64_t size = 0;
        if (!absl::SimpleAtoi(value, &size)) return Damaged("a pax header has a size that is not a number");
        size_ = size;
      }
      if (key.substr(0, 11) == "GNU.sparse.")
        return absl::UnimplementedError(absl::StrCat("at byte ", at_, ": sparse files are not read"));
      records.remove_prefix(length);
    }
    return absl::OkStatus();
  }

  const absl::string_view archive_;
  size_t at_ = 0;
  // What headers before the next file say of it.
  std::optional<std::string> name_;
  std::optional<uint64_t> size_;
  std::vector<TarEntry> entries_;
};

}  // namespace

absl::StatusOr<std::vector<TarEntry>> ReadTar(absl::string_view archive) { return Reader(archive).Read(); }

}  // namespace composer

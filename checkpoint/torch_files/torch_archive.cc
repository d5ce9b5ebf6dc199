// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/torch_archive.h"

#include <zip.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr absl::string_view kPickle = "data.pkl";

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(absl::StrCat("damaged archive: ", what)); }

// Returns "name/" of the one record `name/data.pkl`; "" when there is none.
std::string FolderOfPickle(zip* archive) {
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* raw = zip_get_name(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (raw == nullptr) continue;
    absl::string_view name = raw;
    if (absl::ConsumeSuffix(&name, kPickle) && absl::EndsWith(name, "/") && name.find('/') == name.size() - 1)
      return std::string(name);
  }
  return "";
}

}  // namespace

bool LooksLikeZip(absl::string_view file) { return absl::StartsWith(file, "PK\x03\x04"); }

// The file begins with a pickle of the number 0x1950a86a20f9469cfc6c.
bool LooksLikeLegacyTorch(absl::string_view file) {
  constexpr absl::string_view kMagic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12);
  return file.size() > 2 && file[0] == '\x80' && absl::StartsWith(file.substr(2), kMagic);
}

void TorchArchive::Discard::operator()(zip* archive) const { zip_discard(archive); }

absl::StatusOr<TorchArchive> TorchArchive::Open(absl::string_view file) {
  if (LooksLikeLegacyTorch(file)) {
    return absl::InvalidArgumentError(
        "it has torch.save's format from before torch 1.6 (_use_new_zipfile_serialization=False), whose tensors have "
        "no "
        "checksums; torch.save(torch.load(FILE, weights_only=True), NEW) writes the one that is read");
  }
  if (!LooksLikeZip(file)) return absl::InvalidArgumentError("it is not a torch.save archive");
  zip_error_t error;
  zip_error_init(&error);
  const absl::Cleanup fini = [&error] { zip_error_fini(&error); };
  zip_source_t* source = zip_source_buffer_create(file.data(), file.size(), /*freep=*/0, &error);
  if (source == nullptr) return Damaged(zip_error_strerror(&error));
  TorchArchive archive;
  archive.file_ = file;
  archive.zip_.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive.zip_ == nullptr) {
    zip_source_free(source);
    return Damaged(zip_error_strerror(&error));
  }
  archive.folder_ = FolderOfPickle(archive.zip_.get());
  if (archive.folder_.empty())
    return absl::InvalidArgumentError("it is a zip archive without data.pkl: not torch.save's");
  if (archive.Find("constants.pkl").ok())
    return absl::InvalidArgumentError("it is a TorchScript archive (torch.jit.save): a program, not a dict of tensors");
  if (archive.Find("byteorder").ok()) {  // since torch 2.1
    ASSIGN_OR_RETURN(const int64_t size, archive.Size("byteorder"));
    std::string order(static_cast<size_t>(size), '\0');
    RETURN_IF_ERROR(archive.Read("byteorder", absl::MakeSpan(order)));
    if (order != "little") return absl::InvalidArgumentError("it was saved on a big-endian machine");
  }
  return archive;
}

absl::StatusOr<uint64_t> TorchArchive::Find(absl::string_view record) const {
  const std::string name = absl::StrCat(folder_, record);
  const zip_int64_t index = zip_name_locate(zip_.get(), name.c_str(), ZIP_FL_ENC_RAW);
  if (index < 0) return Damaged(absl::StrCat("no record ", absl::CHexEscape(record)));
  return static_cast<uint64_t>(index);
}

absl::StatusOr<int64_t> TorchArchive::Size(absl::string_view record) const {
  ASSIGN_OR_RETURN(const uint64_t index, Find(record));
  zip_stat_t stat;
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(zip_.get(), index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded)
    return Damaged(absl::StrCat("no size of record ", record));
  if (stat.comp_method != ZIP_CM_STORE || stat.encryption_method != ZIP_EM_NONE)
    return Damaged(absl::StrCat("record ", record, " is compressed or encrypted, as torch never does"));
  if (stat.size > file_.size()) return Damaged(absl::StrCat("record ", record, " is longer than the file"));
  return static_cast<int64_t>(stat.size);
}

absl::Status TorchArchive::Read(absl::string_view record, absl::Span<char> into) const {
  ASSIGN_OR_RETURN(const int64_t size, Size(record));
  if (static_cast<uint64_t>(size) != into.size())
    return Damaged(absl::StrCat("record ", record, " has ", size, " bytes, not ", into.size()));
  ASSIGN_OR_RETURN(const uint64_t index, Find(record));
  const auto broken = [record] { return Damaged(absl::StrCat("checksum mismatch of record ", record)); };
  zip_file_t* file = zip_fopen_index(zip_.get(), index, 0);
  if (file == nullptr) return broken();
  const absl::Cleanup close = [file] { zip_fclose(file); };
  for (size_t done = 0; done < into.size();) {
    const zip_int64_t read = zip_fread(file, into.data() + done, into.size() - done);
    if (read <= 0) return broken();
    done += static_cast<size_t>(read);
  }
  char more;
  return zip_fread(file, &more, 1) == 0 ? absl::OkStatus() : broken();  // libzip compares the checksum at the end
}

}  // namespace composer

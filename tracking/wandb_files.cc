// SPDX-License-Identifier: Apache-2.0
#include "tracking/wandb_files.h"

#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/format/proto_writer.h"

namespace composer {
namespace {

using MediaJson = nlohmann::ordered_json;

constexpr size_t kHashShown = 20;
constexpr int kClientId = 128;  // characters

std::string DigestOf(absl::string_view bytes, const EVP_MD* kind) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &length, kind, nullptr);
  digest.resize(length);
  return digest;
}

std::string Sha256HexOf(absl::string_view bytes) { return absl::BytesToHexString(DigestOf(bytes, EVP_sha256())); }

// The number at an offset of a PNG's header, big-endian; 0 when the file is shorter.
uint32_t PngNumber(absl::string_view png, size_t at) {
  if (png.size() < at + 4) return 0;
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(png[at + i]);
  return number;
}

// A client's name of an artifact: letters and digits that follow from what it is, so that a repeated start names the
// same one.
std::string ClientId(absl::string_view what) {
  std::string id;
  for (int i = 0; static_cast<int>(id.size()) < kClientId; ++i) id += Sha256HexOf(absl::StrCat(i, "\n", what));
  return id.substr(0, kClientId);
}

}  // namespace

std::string Md5Of(absl::string_view bytes) { return DigestOf(bytes, EVP_md5()); }

std::string WandbMediaPath(const TrackedFile& file, absl::string_view content) {
  std::string name = file.name;
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  }
  const bool image = file.kind == TrackedFile::Kind::kImage;
  return absl::StrCat(image ? "media/images/" : "media/table/", name, "_", file.row.batch, "_",
                      Sha256HexOf(content).substr(0, kHashShown), image ? ".png" : ".table.json");
}

std::string WandbMediaJson(const TrackedFile& file, absl::string_view content) {
  MediaJson json = {{"_type", file.kind == TrackedFile::Kind::kImage ? "image-file" : "table-file"},
                    {"path", WandbMediaPath(file, content)},
                    {"sha256", Sha256HexOf(content)},
                    {"size", content.size()}};
  if (file.kind == TrackedFile::Kind::kImage) {
    json["format"] = "png";
    json["width"] = PngNumber(content, 16);
    json["height"] = PngNumber(content, 20);
  } else if (const auto table = ParseOrderedJson(content); table.is_object()) {
    json["ncols"] = table.value("columns", MediaJson::array()).size();
    json["nrows"] = table.value("data", MediaJson::array()).size();
  }
  return json.dump(-1, ' ', false, MediaJson::error_handler_t::replace);
}

ProtoWriter WandbArtifact(const std::string& run_id, const std::string& project, const std::string& name,
                          const std::vector<std::string>& aliases, std::vector<WandbArtifactFile> files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  std::string manifest_text = "wandb-artifact-manifest-v1\n";
  ProtoWriter manifest, layout, artifact;
  layout.Bytes(1, "storageLayout").Bytes(2, "\"V2\"");
  manifest.Int(1, 1).Bytes(2, "wandb-storage-policy-v1").Message(3, layout);
  for (const WandbArtifactFile& file : files) {
    const std::string digest = absl::Base64Escape(file.md5);
    absl::StrAppend(&manifest_text, file.path, ":", digest, "\n");
    manifest.Message(4, ProtoWriter().Bytes(1, file.path).Bytes(2, digest).Int(4, file.size).Bytes(6, file.local_path));
  }
  artifact.Bytes(1, run_id).Bytes(2, project).Bytes(4, "model").Bytes(5, name);
  artifact.Bytes(6, absl::BytesToHexString(Md5Of(manifest_text)));
  for (const std::string& alias : aliases) artifact.Bytes(11, alias);
  artifact.Message(12, manifest).Int(14, 1);
  artifact.Bytes(15, ClientId(absl::StrCat(run_id, "/", name, "/", manifest_text)));
  artifact.Bytes(16, ClientId(absl::StrCat(run_id, "/", name))).Bytes(20, "MANIFEST_MD5");
  return artifact;
}

}  // namespace composer

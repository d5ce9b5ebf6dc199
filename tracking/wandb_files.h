// What Weights & Biases keeps beside a run's numbers, as its records name it: pictures, tables, and checkpoints as
// artifacts. Tried with wandb 0.31.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/format/proto_writer.h"
#include "tracking/tracker_sink.h"

namespace composer {

// Where a picture or a table lies below files/: "media/images/Images_Train_4_0123456789abcdef0123.png".
std::string WandbMediaPath(const TrackedFile& file, absl::string_view content);
// The value of a row that shows it: {"_type":"image-file","path":…}. Pure.
std::string WandbMediaJson(const TrackedFile& file, absl::string_view content);

struct WandbArtifactFile {
  std::string path;        // in the artifact
  std::string local_path;  // where `wandb sync` finds it
  std::string md5;         // of its bytes
  int64_t size = 0;
};
// A message wandb_internal.ArtifactRecord: one version of the artifact `name`, with the aliases.
ProtoWriter WandbArtifact(const std::string& run_id, const std::string& project, const std::string& name,
                          const std::vector<std::string>& aliases, std::vector<WandbArtifactFile> files);

std::string Md5Of(absl::string_view bytes);

}  // namespace composer

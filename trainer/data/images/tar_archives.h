// The tar files of a data set, on this node or in a store, and where in them its samples are.
//
// A tar file has no list of its files. Of one on the node the headers are read when it is opened. One in a store is
// fetched once, whole, into the node's cache, and the list of its samples is kept beside it (<name>.samples, JSON with
// the archive's checksum), so that later starts fetch nothing before it is needed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/cache/remote_files.h"
#include "data/mds/shard.h"
#include "storage/object_store.h"

namespace composer {

struct TarSample {
  struct Part {
    std::string ending;  // of its name, behind the first dot
    uint64_t begin = 0, size = 0;
  };
  std::string key;
  std::vector<Part> parts;
};

// Returns the samples of an archive: files that follow each other and have the same name up to its first dot. kDataLoss
// names the byte, or the sample that has two files of one ending.
absl::StatusOr<std::vector<TarSample>> SamplesOfTar(absl::string_view archive);

struct TarArchive {
  std::string place;  // a path or a URL
  int64_t bytes = 0;
  std::vector<TarSample> samples;
  // Returns the archive, fetched if it must be; the parts above lie in it. Thread-safe.
  std::function<absl::StatusOr<OwnedBytes>()> open;
};

// Opens the archives of these paths, in their order: files, folders (their .tar files) or globs, on this node or, with
// `local`, in stores. Errors name the archive.
absl::StatusOr<std::vector<TarArchive>> OpenTarArchives(const std::vector<std::string>& paths,
                                                        const FetchOptions& options, const StoreOpener& open_store);

}  // namespace composer

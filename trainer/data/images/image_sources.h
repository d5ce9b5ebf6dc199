// Samples out of image files. `targets` is the class, an int64 scalar. Encoded images are texts, which decode_image
// decodes; `path` says where a sample is from. Threads: any number at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/dataset.h"
#include "trainer/data/images/tar_archives.h"
#include "trainer/data/split.h"

namespace composer {

struct ImageFolderOptions {
  std::string path;
  std::string classes;  // a file with the name of a class in each line; "": the folders' names, sorted
};
// A folder with a folder for each class, which has the class's images (.jpg, .jpeg, .png) at any depth: `image` and
// `targets`. In the order of torchvision's ImageFolder: by class, folder and name, as bytes. kInvalidArgument names a
// class without an image, or one that the file of classes lacks.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenImageFolder(const ImageFolderOptions& options);

struct WebDatasetOptions {
  std::vector<std::string> paths;  // tar files, folders of them, globs; {000..012} and {a,b} stand for several
  std::string target = "cls";      // the ending of the files with the class as a whole number; "": none
  FetchOptions cache;              // with `local`, the paths may be in stores (s3://…)
};
// Tar files in which files that follow each other and have the same name up to its first dot are one sample: its texts
// are the files by the rest of their names: jpg, json, txt, … Samples are read by index, in any order; with a bounded
// cache, a shuffled epoch has an order of its own (OwnOrder). kDataLoss names file and byte. Source: webdataset's
// format.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenWebDataset(const WebDatasetOptions& options,
                                                                   const StoreOpener& open_store = nullptr);

// Returns what braces stand for: "a{1,2}b" is a1b and a2b, "{08..11}" is 08, 09, 10 and 11. At most a million.
absl::StatusOr<std::vector<std::string>> ExpandBraces(const std::string& text);

// MNIST's binary files, {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] of the folder: `inputs` uint8 [1, H, W].
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenMnist(const std::string& folder, DataSplit split);
// CIFAR-10's binary files, data_batch_{1..5}.bin or test_batch.bin of the folder: `inputs` uint8 [3, 32, 32].
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenCifar10(const std::string& folder, DataSplit split);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "data/tools/image_records.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/image/image_files.h"
#include "data/tools/json_values.h"

namespace composer {
namespace {

class ImageRecords final : public RecordSource {
 public:
  explicit ImageRecords(std::vector<ImageFile> files) : files_(std::move(files)) {
    for (const ImageFile& file : files_) paths_.push_back(JoinPath(file.folder, file.name));
  }
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<std::string>& paths() const override { return paths_; }
  absl::StatusOr<ColumnList> Columns() const override {
    const auto pngs = std::count_if(paths_.begin(), paths_.end(),
                                    [](const std::string& path) { return absl::EndsWithIgnoreCase(path, ".png"); });
    const char* const encoding = pngs == 0 ? "jpeg" : pngs == size() ? "png" : "bytes";
    return ColumnList{{"image", encoding}, {"label", "int"}};
  }
  absl::StatusOr<std::vector<std::string>> Values(int64_t record,
                                                  const std::vector<MdsColumn>& columns) const override {
    const auto index = static_cast<size_t>(record);
    std::vector<std::string> values;
    for (const MdsColumn& column : columns) {
      const bool picture = column.name == "image" && column.encoding.kind == MdsKind::kPicture;
      if (column.name == "label") {
        ASSIGN_OR_RETURN(values.emplace_back(), EncodeJsonValue(column.encoding, files_[index].target));
      } else if (picture || (column.name == "image" && column.encoding.kind == MdsKind::kBytes)) {
        ASSIGN_OR_RETURN(values.emplace_back(), ReadFile(paths_[index], kMaxImageFile));
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("column `", column.name, ":", column.encoding.name,
                         "`: a folder of images has image:jpeg, png or bytes, and label:int"));
      }
    }
    return values;
  }

 private:
  const std::vector<ImageFile> files_;
  std::vector<std::string> paths_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenImageRecords(const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<ImageFile> files, ListImageFolder(folder));
  return std::make_unique<ImageRecords>(std::move(files));
}

}  // namespace composer

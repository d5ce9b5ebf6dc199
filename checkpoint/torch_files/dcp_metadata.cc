// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/dcp_metadata.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/torch_files/pickle.h"
#include "checkpoint/torch_files/torch_pickle.h"

namespace composer {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxDcpDims = 64, kMaxDcpName = 4096;

absl::Status DamagedDcp(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("damaged .metadata: ", what));
}

// Where a part of a tensor, or a value that is none, lies.
struct StoredPart {
  int file = 0;
  int64_t begin = 0, end = 0;
};

class DcpReader {
 public:
  explicit DcpReader(const Pickle& pickle) : pickle_(pickle) {}
  absl::StatusOr<DcpMetadata> Read();

 private:
  using Place = std::pair<absl::string_view, std::vector<int64_t>>;  // name and offset of a part

  absl::StatusOr<const PickleValue*> Member(const PickleValue& value, absl::string_view type,
                                            absl::string_view name) const;
  absl::StatusOr<absl::string_view> Name(const PickleValue& value) const;
  absl::StatusOr<std::vector<int64_t>> Size(const PickleValue& value) const;
  absl::Status ReadStored(const PickleValue& all);
  absl::StatusOr<StoredPart> Stored(const PickleValue& info);
  absl::StatusOr<Box> Part(absl::string_view name, const std::vector<int64_t>& shape, const PickleValue& chunk);
  absl::Status ReadTensor(absl::string_view name, const PickleValue& value);
  absl::Status ReadEntries(const PickleValue& all);
  absl::Status CheckBytes() const;
  void FindDefaultKey(const PickleValue* planner_data);

  const Pickle& pickle_;
  DcpMetadata read_;
  std::map<Place, StoredPart> stored_;  // each is taken by one part of a tensor
  absl::flat_hash_map<absl::string_view, int> file_numbers_;
};

// Returns a member of an object's state.
absl::StatusOr<const PickleValue*> DcpReader::Member(const PickleValue& value, absl::string_view type,
                                                     absl::string_view name) const {
  const PickleValue* state = pickle_.StateOf(value, type);
  if (state == nullptr) return DamagedDcp(absl::StrCat(pickle_.Describe(value), " where a ", type, " must be"));
  const PickleValue* found = pickle_.Find(*state, name);
  if (found == nullptr) return DamagedDcp(absl::StrCat("a ", type, " without ", name));
  return found;
}

absl::StatusOr<absl::string_view> DcpReader::Name(const PickleValue& value) const {
  if (value.kind != Kind::kString || value.text.empty() || value.text.size() > kMaxDcpName)
    return DamagedDcp(absl::StrCat(pickle_.Describe(value), " where a name must be"));
  return value.text;
}

// torch.Size((2, 3))
absl::StatusOr<std::vector<int64_t>> DcpReader::Size(const PickleValue& value) const {
  const auto bad = [&] { return DamagedDcp(absl::StrCat(pickle_.Describe(value), " where a shape must be")); };
  if (value.kind != Kind::kCall || !pickle_.at(value.items[0]).IsGlobal("torch.Size")) return bad();
  const PickleValue& arguments = pickle_.at(value.items[1]);
  if (arguments.items.size() != 1) return bad();
  const PickleValue& sizes = pickle_.at(arguments.items[0]);
  if ((sizes.kind != Kind::kTuple && sizes.kind != Kind::kList) || sizes.items.size() > kMaxDcpDims) return bad();
  std::vector<int64_t> numbers;
  for (const int item : sizes.items) {
    if (pickle_.at(item).kind != Kind::kInt || pickle_.at(item).number < 0) return bad();
    numbers.push_back(pickle_.at(item).number);
  }
  return numbers;
}

absl::StatusOr<StoredPart> DcpReader::Stored(const PickleValue& info) {
  constexpr absl::string_view kType = "_StorageInfo";
  ASSIGN_OR_RETURN(const PickleValue* path, Member(info, kType, "relative_path"));
  ASSIGN_OR_RETURN(const PickleValue* offset, Member(info, kType, "offset"));
  ASSIGN_OR_RETURN(const PickleValue* length, Member(info, kType, "length"));
  const PickleValue* transforms = pickle_.Find(*pickle_.StateOf(info, kType), "transform_descriptors");
  if (transforms != nullptr && !transforms->items.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("it was written with the extension ",
                                                   ShownText(pickle_.at(transforms->items[0]).text),
                                                   ", which is not read: save it without extensions"));
  }
  ASSIGN_OR_RETURN(const absl::string_view file, Name(*path));
  if (file == "." || file == ".." || file.find_first_of(absl::string_view("/\0", 2)) != file.npos)
    return absl::InvalidArgumentError(absl::StrCat("it names the file `", ShownText(file), "`, not one beside it"));
  StoredPart part;
  if (offset->kind != Kind::kInt || length->kind != Kind::kInt || offset->number < 0 || length->number < 0 ||
      __builtin_add_overflow(offset->number, length->number, &part.end))
    return DamagedDcp("a place in a file that is none");
  part.begin = offset->number;
  const auto [known, is_new] = file_numbers_.emplace(file, static_cast<int>(read_.files.size()));
  if (is_new) read_.files.push_back({.name = std::string(file)});
  part.file = known->second;
  return part;
}

absl::Status DcpReader::ReadStored(const PickleValue& all) {
  constexpr absl::string_view kType = "MetadataIndex";
  if (all.kind != Kind::kDict) return DamagedDcp("storage_data is not a dict");
  for (size_t i = 0; i + 1 < all.items.size(); i += 2) {
    const PickleValue& index = pickle_.at(all.items[i]);
    ASSIGN_OR_RETURN(const PickleValue* fqn, Member(index, kType, "fqn"));
    Place place;
    ASSIGN_OR_RETURN(place.first, Name(*fqn));
    const PickleValue* offset = pickle_.Find(*pickle_.StateOf(index, kType), "offset");
    if (offset != nullptr && offset->kind != Kind::kNone) {
      ASSIGN_OR_RETURN(place.second, Size(*offset));
    }
    ASSIGN_OR_RETURN(const StoredPart part, Stored(pickle_.at(all.items[i + 1])));
    if (!stored_.emplace(std::move(place), part).second)
      return DamagedDcp(absl::StrCat("`", ShownText(fqn->text), "` is stored twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Box> DcpReader::Part(absl::string_view name, const std::vector<int64_t>& shape,
                                    const PickleValue& chunk) {
  Box box;
  ASSIGN_OR_RETURN(const PickleValue* offsets, Member(chunk, "ChunkStorageMetadata", "offsets"));
  ASSIGN_OR_RETURN(box.offset, Size(*offsets));
  ASSIGN_OR_RETURN(const PickleValue* sizes, Member(chunk, "ChunkStorageMetadata", "sizes"));
  ASSIGN_OR_RETURN(box.shape, Size(*sizes));
  if (box.shape.size() != shape.size() || box.offset.size() != shape.size())
    return DamagedDcp("a part has another number of dimensions");
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.shape[d] > shape[d] || box.offset[d] > shape[d] - box.shape[d])
      return DamagedDcp("a part does not lie within the tensor");
  }
  const auto found = stored_.find({name, box.offset});
  if (found == stored_.end()) return DamagedDcp("a part is stored nowhere, or is there twice");
  box.file = found->second.file;
  box.begin = found->second.begin;
  box.end = found->second.end;
  stored_.erase(found);
  return box;
}

absl::Status DcpReader::ReadTensor(absl::string_view name, const PickleValue& value) {
  constexpr absl::string_view kType = "TensorStorageMetadata";
  TensorEntry tensor{.name = std::string(name)};
  ASSIGN_OR_RETURN(const PickleValue* properties, Member(value, kType, "properties"));
  const PickleValue* state = pickle_.StateOf(*properties, "TensorProperties");
  if (state == nullptr || state->kind != Kind::kTuple || state->items.empty()) return DamagedDcp("no dtype");
  tensor.dtype = TorchDType(pickle_.at(state->items[0]));
  if (tensor.dtype.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is of type ", pickle_.Describe(pickle_.at(state->items[0])), ", which is not read"));
  }
  ASSIGN_OR_RETURN(const PickleValue* size, Member(value, kType, "size"));
  ASSIGN_OR_RETURN(tensor.shape, Size(*size));
  RETURN_IF_ERROR(TensorBytes(tensor.dtype, tensor.shape).status());
  ASSIGN_OR_RETURN(const PickleValue* chunks, Member(value, kType, "chunks"));
  if (chunks->kind != Kind::kList) return DamagedDcp("chunks is not a list");
  const bool is_empty = std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
  for (const int item : chunks->items) {
    ASSIGN_OR_RETURN(Box box, Part(name, tensor.shape, pickle_.at(item)));
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor.dtype, box.shape));
    if (bytes > box.end - box.begin) return DamagedDcp("a part is larger than its place in the file");
    if (bytes > 0 || (is_empty && tensor.boxes.empty())) tensor.boxes.push_back(std::move(box));
  }
  read_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status DcpReader::ReadEntries(const PickleValue& all) {
  if (all.kind != Kind::kDict) return DamagedDcp("state_dict_metadata is not a dict");
  for (size_t i = 0; i + 1 < all.items.size(); i += 2) {
    ASSIGN_OR_RETURN(const absl::string_view name, Name(pickle_.at(all.items[i])));
    const PickleValue& value = pickle_.at(all.items[i + 1]);
    if (pickle_.StateOf(value, "TensorStorageMetadata") == nullptr) {
      read_.others.emplace_back(name);
    } else {
      RETURN_IF_ERROR(Annotate(ReadTensor(name, value), absl::StrCat("`", ShownText(name), "`")));
    }
  }
  return absl::OkStatus();
}

// So that what is read is never larger than the files.
absl::Status DcpReader::CheckBytes() const {
  std::vector<std::vector<std::pair<int64_t, int64_t>>> ranges(read_.files.size());
  for (const TensorEntry& tensor : read_.tensors) {
    for (const Box& box : tensor.boxes) ranges[static_cast<size_t>(box.file)].emplace_back(box.begin, box.end);
  }
  for (size_t f = 0; f < ranges.size(); ++f) {
    std::sort(ranges[f].begin(), ranges[f].end());
    for (size_t i = 1; i < ranges[f].size(); ++i) {
      if (ranges[f][i].first < ranges[f][i - 1].second)
        return DamagedDcp(absl::StrCat("parts overlap in ", ShownText(read_.files[f].name)));
    }
  }
  return absl::OkStatus();
}

// planner_data has the members from which a name was made: {"model.fc.weight": ("model", "fc.weight")}.
void DcpReader::FindDefaultKey(const PickleValue* planner_data) {
  if (planner_data == nullptr || planner_data->kind != Kind::kDict) return;
  for (const absl::string_view key : {"state/model", "model", "state_dict"}) {
    const std::vector<absl::string_view> wanted = absl::StrSplit(key, '/');
    for (size_t i = 1; i < planner_data->items.size(); i += 2) {
      const PickleValue& path = pickle_.at(planner_data->items[i]);
      if (path.kind != Kind::kTuple || path.items.size() <= wanted.size()) continue;
      const bool is_below = std::equal(wanted.begin(), wanted.end(), path.items.begin(),
                                       [&](absl::string_view part, int item) { return pickle_.at(item).text == part; });
      if (!is_below) continue;
      read_.default_key = std::string(key);
      return;
    }
  }
}

absl::StatusOr<DcpMetadata> DcpReader::Read() {
  const PickleValue& root = pickle_.root();
  if (pickle_.StateOf(root, "Metadata") == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(".metadata is ", pickle_.Describe(root), ", not the Metadata of torch.distributed.checkpoint"));
  }
  ASSIGN_OR_RETURN(const PickleValue* stored, Member(root, "Metadata", "storage_data"));
  RETURN_IF_ERROR(ReadStored(*stored));
  ASSIGN_OR_RETURN(const PickleValue* entries, Member(root, "Metadata", "state_dict_metadata"));
  RETURN_IF_ERROR(ReadEntries(*entries));
  RETURN_IF_ERROR(CheckBytes());
  Manifest manifest{.files = std::move(read_.files), .tensors = std::move(read_.tensors)};
  RETURN_IF_ERROR(Annotate(CheckComplete(manifest), ".metadata"));
  read_.files = std::move(manifest.files);
  read_.tensors = std::move(manifest.tensors);
  FindDefaultKey(pickle_.Find(*pickle_.StateOf(root, "Metadata"), "planner_data"));
  return std::move(read_);
}

}  // namespace

absl::StatusOr<DcpMetadata> ReadDcpMetadata(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(bytes));
  return DcpReader(pickle).Read();
}

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/first_fit_source.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/data/sample_order.h"

namespace composer {
namespace {

constexpr int64_t kGroup = 1024;  // documents
constexpr int64_t kNoTarget = -100;
constexpr int64_t kPadding = -1;  // in sequence_id

struct Documents {
  std::shared_ptr<const SampleSource> source;
  std::vector<std::shared_ptr<const SampleTransform>> transforms;
  FirstFitOptions options;
  std::shared_ptr<const SampleOrder> order;
};

struct Piece {
  at::Tensor inputs, targets;
};

at::Tensor TokensOf(const Sample& document, const std::string& key) {
  const auto found = document.tensors.find(key);
  if (found == document.tensors.end()) return at::Tensor();
  TORCH_CHECK_VALUE(found->second.dim() == 1 && found->second.scalar_type() == at::kLong, "pack: `", key,
                    "` of document ", document.id, " is not a row of tokens");
  return found->second;
}

// A place is "D:G:R:I": D samples were given, and row R of group G comes next; behind the groups that were begun comes
// number I of the source. Older places have no I.
class FirstFitStream final : public SampleStream {
 public:
  FirstFitStream(std::shared_ptr<const Documents> documents, int64_t epoch)
      : documents_(std::move(documents)), epoch_(epoch) {}

  bool Next(Sample& sample) override {
    while (!read_ || row_ >= static_cast<int64_t>(rows_.size())) {
      if (read_) {
        ++group_;
        row_ = 0;
        read_ = false;
      }
      if (group_ * kGroup >= documents_->order->size()) return false;
      ReadGroup();
    }
    const int64_t length = documents_->options.pack.max_seq_len;
    at::Tensor inputs = torch::full({length}, documents_->options.pad_id, at::kLong);
    at::Tensor targets = torch::full({length}, kNoTarget, at::kLong);
    at::Tensor sequence = torch::full({length}, kPadding, at::kLong);
    int64_t at = 0, document = 0;
    for (const size_t number : rows_[static_cast<size_t>(row_)]) {
      const Piece& piece = pieces_[number];
      const int64_t end = at + piece.inputs.size(0);
      inputs.slice(0, at, end).copy_(piece.inputs);
      targets.slice(0, at, end).copy_(piece.targets);
      sequence.slice(0, at, end).fill_(document++);
      at = end;
    }
    sample.tensors["inputs"] = inputs;
    sample.tensors["targets"] = targets;
    if (documents_->options.pack.sequence_ids) sample.tensors["sequence_id"] = sequence;
    sample.id = given_++;
    ++row_;
    return true;
  }

  std::string Place() const override {
    const DocumentPlace next = PlaceOfDocument(*documents_->order, epoch_, BehindBegun());
    return absl::StrCat(given_, ":", group_, ":", row_, ":", next.index);
  }
  void Seek(const std::string& place) override {
    const std::vector<std::string> parts = absl::StrSplit(place, ':');
    int64_t index = -1;
    const bool fits = (parts.size() == 3 || (parts.size() == 4 && absl::SimpleAtoi(parts[3], &index))) &&
                      absl::SimpleAtoi(parts[0], &given_) && absl::SimpleAtoi(parts[1], &group_) &&
                      absl::SimpleAtoi(parts[2], &row_) && given_ >= 0 && group_ >= 0 && row_ >= 0 &&
                      group_ <= documents_->order->size() / kGroup + 1;
    TORCH_CHECK_VALUE(fits, "`", place, "` is not a place in ", documents_->order->size(), " documents");
    CheckPlaceOfDocument(*documents_->order, epoch_, {BehindBegun(), index});
    read_ = false;
  }

 private:
  int64_t BehindBegun() const {
    return std::min(documents_->order->size() - 1, (row_ > 0 ? group_ + 1 : group_) * kGroup);
  }

  void ReadGroup() {
    const int64_t begin = group_ * kGroup;
    std::vector<int64_t> ids(static_cast<size_t>(std::min(kGroup, documents_->order->size() - begin)));
    documents_->order->Read(epoch_, begin, absl::MakeSpan(ids));
    pieces_.clear();
    for (const int64_t id : ids) AddDocument(id);
    std::vector<int64_t> lengths;
    for (const Piece& piece : pieces_) lengths.push_back(piece.inputs.size(0));
    rows_ = FirstFit(lengths, documents_->options.pack.max_seq_len);
    read_ = true;
  }

  void AddDocument(int64_t id) {
    Sample document = documents_->source->Get(id);
    document.id = id;
    ApplyTransforms(documents_->transforms, documents_->options.pack.seed, epoch_, document);
    at::Tensor inputs = TokensOf(document, "inputs"), targets = TokensOf(document, "targets");
    TORCH_CHECK_VALUE(inputs.defined(), "pack: document ", id,
                      " has no row of tokens `inputs`: give the data `transforms: [tokenize]`");
    const std::optional<int64_t>& separator = documents_->options.pack.separator;
    if (!targets.defined()) {
      const bool ended = inputs.size(0) > 0 && separator && inputs[-1].item<int64_t>() == *separator;
      if (separator && !ended) inputs = torch::cat({inputs, torch::tensor({*separator}, at::kLong)});
      targets = torch::cat({inputs.slice(0, 1), torch::tensor({kNoTarget}, at::kLong)}).slice(0, 0, inputs.size(0));
    }
    TORCH_CHECK_VALUE(targets.size(0) == inputs.size(0), "pack: document ", id, " has ", inputs.size(0), " inputs and ",
                      targets.size(0), " targets");
    const int64_t most = documents_->options.pack.max_seq_len;
    for (int64_t begin = 0; begin < inputs.size(0); begin += most) {
      const int64_t end = std::min(begin + most, inputs.size(0));
      pieces_.push_back({inputs.slice(0, begin, end), targets.slice(0, begin, end)});
    }
  }

  const std::shared_ptr<const Documents> documents_;
  const int64_t epoch_;
  int64_t given_ = 0, group_ = 0, row_ = 0;
  bool read_ = false;  // pieces and rows are those of the group
  std::vector<Piece> pieces_;
  std::vector<std::vector<size_t>> rows_;
};

class FirstFitSource final : public SampleSource {
 public:
  explicit FirstFitSource(std::shared_ptr<const Documents> documents) : documents_(std::move(documents)) {}
  int64_t size() const override { return kUnknownSize; }
  std::unique_ptr<SampleStream> Open(int64_t epoch) const override {
    return std::make_unique<FirstFitStream>(documents_, epoch);
  }

 private:
  const std::shared_ptr<const Documents> documents_;
};

}  // namespace

std::vector<std::vector<size_t>> FirstFit(const std::vector<int64_t>& lengths, int64_t most) {
  std::vector<size_t> longest_first(lengths.size());
  std::iota(longest_first.begin(), longest_first.end(), size_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<size_t>> rows;
  std::vector<int64_t> room;
  for (const size_t number : longest_first) {
    const auto fits = std::find_if(room.begin(), room.end(), [&](int64_t left) { return left >= lengths[number]; });
    const auto row = static_cast<size_t>(fits - room.begin());
    if (fits == room.end()) {
      rows.emplace_back();
      room.push_back(most);
    }
    rows[row].push_back(number);
    room[row] -= lengths[number];
  }
  return rows;
}

std::shared_ptr<const SampleSource> PackFirstFit(std::shared_ptr<const SampleSource> documents,
                                                 std::vector<std::shared_ptr<const SampleTransform>> transforms,
                                                 const FirstFitOptions& options) {
  const PackOptions& pack = options.pack;
  TORCH_CHECK_VALUE(pack.max_seq_len > 0, "pack: max_seq_len: must be at least 1, got ", pack.max_seq_len);
  TORCH_CHECK_VALUE(documents->size() > 0, "pack: there are no documents");
  auto shared = std::make_shared<Documents>();
  shared->order = OrderOf(*documents, {.size = documents->size(), .seed = pack.seed, .shuffle = pack.shuffle});
  shared->source = std::move(documents);
  shared->transforms = std::move(transforms);
  shared->options = options;
  return std::make_shared<const FirstFitSource>(std::move(shared));
}

}  // namespace composer

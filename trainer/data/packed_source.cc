// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/packed_source.h"

#include <torch/types.h>

#include <deque>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/data/sample_order.h"

namespace composer {
namespace {

struct Parts {
  std::shared_ptr<const SampleSource> documents;
  std::vector<std::shared_ptr<const SampleTransform>> transforms;
  PackOptions options;
  std::shared_ptr<const SampleOrder> order;
};

// A place is "D:S:O:I": the stream stands before token O of the S-th document of the epoch, which is number I of the
// source, and has given D samples. Older places have no I.
class PackedStream final : public SampleStream {
 public:
  PackedStream(std::shared_ptr<const Parts> parts, int64_t epoch) : parts_(std::move(parts)), epoch_(epoch) {}

  bool Next(Sample& sample) override {
    const auto row = static_cast<size_t>(parts_->options.max_seq_len);
    while (tokens_.size() - first_ < row + 1) {
      if (document_ + 1 >= parts_->order->size()) return false;
      AddDocument(++document_);
    }
    const at::Tensor ids = torch::tensor(at::ArrayRef<int64_t>(tokens_.data() + first_, row + 1),
                                         at::kLong);  // copies: slices of it are the sample
    sample.tensors["inputs"] = ids.slice(0, 0, static_cast<int64_t>(row));
    sample.tensors["targets"] = ids.slice(0, 1);
    if (parts_->options.sequence_ids) sample.tensors["sequence_id"] = SequenceIds(row);
    sample.id = given_++;
    first_ += row;
    DropWhatWasGiven();
    return true;
  }

  std::string Place() const override {
    const bool is_begun = !begun_.empty();
    const DocumentPlace next =
        PlaceOfDocument(*parts_->order, epoch_, is_begun ? begun_.front().document : document_ + 1);
    return absl::StrCat(given_, ":", next.position, ":", is_begun ? first_ - begun_.front().begin : 0, ":", next.index);
  }

  void Seek(const std::string& place) override {
    const std::vector<std::string> parts = absl::StrSplit(place, ':');
    int64_t document = 0, offset = 0, index = -1;
    const bool fits = (parts.size() == 3 || (parts.size() == 4 && absl::SimpleAtoi(parts[3], &index))) &&
                      absl::SimpleAtoi(parts[0], &given_) && absl::SimpleAtoi(parts[1], &document) &&
                      absl::SimpleAtoi(parts[2], &offset) && given_ >= 0 && document >= 0 && offset >= 0 &&
                      document <= parts_->order->size();
    TORCH_CHECK_VALUE(fits, "`", place, "` is not a place in ", parts_->order->size(), " documents");
    CheckPlaceOfDocument(*parts_->order, epoch_, {document, index});
    document_ = document - 1;
    if (offset == 0) return;
    TORCH_CHECK_VALUE(document < parts_->order->size(), "`", place, "` is behind the last document");
    AddDocument(++document_);
    TORCH_CHECK_VALUE(static_cast<size_t>(offset) <= tokens_.size(), "`", place, "`: that document has ",
                      tokens_.size(), " tokens; it has changed");
    first_ = static_cast<size_t>(offset);
  }

 private:
  struct Begun {
    int64_t document;
    size_t begin;  // in tokens_
  };

  void AddDocument(int64_t position) {
    int64_t index = 0;
    parts_->order->Read(epoch_, position, absl::MakeSpan(&index, 1));
    Sample document = parts_->documents->Get(index);
    document.id = index;
    ApplyTransforms(parts_->transforms, parts_->options.seed, epoch_, document);
    const auto inputs = document.tensors.find("inputs");
    TORCH_CHECK_VALUE(
        inputs != document.tensors.end() && inputs->second.dim() == 1 && inputs->second.scalar_type() == at::kLong,
        "pack: document ", index, " has no row of tokens `inputs`: give the data `transforms: [tokenize]`");
    const at::Tensor ids = inputs->second.contiguous();
    begun_.push_back({position, tokens_.size()});
    tokens_.insert(tokens_.end(), ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel());
    const std::optional<int64_t>& separator = parts_->options.separator;
    const bool is_separated = ids.numel() > 0 && separator && tokens_.back() == *separator;
    if (separator && !is_separated) tokens_.push_back(*separator);
  }

  at::Tensor SequenceIds(size_t row) const {
    at::Tensor ids = torch::empty({static_cast<int64_t>(row)}, at::kLong);
    auto next = std::next(begun_.begin());
    for (size_t i = 0; i < row; ++i) {
      while (next != begun_.end() && next->begin <= first_ + i) ++next;
      ids.mutable_data_ptr<int64_t>()[i] = std::distance(begun_.begin(), next) - 1;
    }
    return ids;
  }

  // Keeps the document in which the next row begins, and those after it.
  void DropWhatWasGiven() {
    while (begun_.size() > 1 && begun_[1].begin <= first_) begun_.pop_front();
    const size_t before = begun_.front().begin;
    if (before < kCompactAt) return;
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(before));
    for (Begun& begun : begun_) begun.begin -= before;
    first_ -= before;
  }

  static constexpr size_t kCompactAt = 1 << 20;  // tokens, so that a token is moved about once

  const std::shared_ptr<const Parts> parts_;
  const int64_t epoch_;
  int64_t document_ = -1;  // the position of the newest document
  int64_t given_ = 0;
  std::vector<int64_t> tokens_;
  size_t first_ = 0;  // of the next row
  std::deque<Begun> begun_;
};

class PackedSource final : public SampleSource {
 public:
  explicit PackedSource(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  int64_t size() const override { return kUnknownSize; }
  std::unique_ptr<SampleStream> Open(int64_t epoch) const override {
    return std::make_unique<PackedStream>(parts_, epoch);
  }

 private:
  const std::shared_ptr<const Parts> parts_;
};

}  // namespace

DocumentPlace PlaceOfDocument(const SampleOrder& order, int64_t epoch, int64_t position) {
  DocumentPlace place{.position = position};
  if (position < order.size()) order.Read(epoch, position, absl::MakeSpan(&place.index, 1));
  return place;
}

void CheckPlaceOfDocument(const SampleOrder& order, int64_t epoch, const DocumentPlace& place) {
  if (place.index < 0) return;
  const int64_t now = PlaceOfDocument(order, epoch, place.position).index;
  TORCH_CHECK_VALUE(now == place.index, "pack: the run was to go on with document ", place.index, " at place ",
                    place.position, " of epoch ", epoch, ", where document ", now,
                    " is now: the seed, or weights of a mixture before this place, have changed. Keep those, and let "
                    "weights change at ",
                    epoch * order.size() + place.position + 1, " (documents of the run, not rows) or later");
}

std::shared_ptr<const SampleSource> PackDocuments(std::shared_ptr<const SampleSource> documents,
                                                  std::vector<std::shared_ptr<const SampleTransform>> transforms,
                                                  const PackOptions& options) {
  TORCH_CHECK_VALUE(options.max_seq_len > 0, "pack: max_seq_len: must be at least 1, got ", options.max_seq_len);
  TORCH_CHECK_VALUE(documents->size() > 0, "pack: there are no documents");
  auto parts = std::make_shared<Parts>();
  parts->order = OrderOf(*documents, {.size = documents->size(), .seed = options.seed, .shuffle = options.shuffle});
  parts->documents = std::move(documents);
  parts->transforms = std::move(transforms);
  parts->options = options;
  return std::make_shared<const PackedSource>(std::move(parts));
}

}  // namespace composer

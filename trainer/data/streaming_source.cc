// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/streaming_source.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/mds/cached_shards.h"
#include "data/mds/cached_slices.h"
#include "data/mds/fetch.h"
#include "data/mds/reader.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/sample_order.h"

namespace composer {
namespace {

at::ScalarType TypeOf(MdsNumber number) {
  switch (number) {
    case MdsNumber::kUint8:
      return at::kByte;
    case MdsNumber::kInt8:
      return at::kChar;
    case MdsNumber::kUint16:
      return at::kUInt16;
    case MdsNumber::kInt16:
      return at::kShort;
    case MdsNumber::kFloat16:
      return at::kHalf;
    case MdsNumber::kUint32:
      return at::kUInt32;
    case MdsNumber::kInt32:
      return at::kInt;
    case MdsNumber::kFloat32:
      return at::kFloat;
    case MdsNumber::kUint64:
    case MdsNumber::kInt64:
      return at::kLong;
    case MdsNumber::kFloat64:
      break;
  }
  return at::kDouble;
}

at::Tensor TensorOf(const std::string& column, const MdsArray& array) {
  at::Tensor tensor = torch::empty(array.shape, TypeOf(array.number));
  std::memcpy(tensor.mutable_data_ptr(), array.values.data(), array.values.size());
  if (array.number == MdsNumber::kUint64)
    TORCH_CHECK_VALUE(tensor.ge(0).all().item<bool>(), "column `", column, "` holds a number above 2^63");
  const bool widens = array.number == MdsNumber::kUint16 || array.number == MdsNumber::kUint32;
  return widens ? tensor.to(at::kLong) : tensor;
}

void AddColumn(const MdsColumn& column, absl::string_view value, Sample& sample) {
  switch (column.encoding.kind) {
    case MdsKind::kNumber:
    case MdsKind::kArray: {
      const absl::StatusOr<MdsArray> array = ReadArray(column.encoding, value);
      TORCH_CHECK_VALUE(array.ok(), "column `", column.name, "`: ", array.status().message());
      sample.tensors[column.name] = TensorOf(column.name, *array);
      return;
    }
    case MdsKind::kBytes:
    case MdsKind::kText:
    case MdsKind::kJson:
    case MdsKind::kNumberText:
    case MdsKind::kPicture:
      sample.texts[column.name] = std::string(value);
      return;
    case MdsKind::kPixels:
    case MdsKind::kPictureArray:
    case MdsKind::kList:
      break;
  }
  TORCH_CHECK_VALUE(false, "column `", column.name, "`: values encoded as ", column.encoding.name,
                    " cannot be trained on; write them as jpeg, png or ndarray");
}

// An open stream.
struct StreamReader {
  std::unique_ptr<MdsReader> reader;
  std::unique_ptr<ShardsAhead> ahead;  // uses the reader; null: all shards are here
};

class StreamingSource final : public SampleSource {
 public:
  StreamingSource(std::vector<StreamReader> streams, OrderConfig order)
      : streams_(std::move(streams)), order_(std::move(order)) {
    for (const StreamReader& stream : streams_)
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + stream.reader->size());
  }

  int64_t size() const override { return ends_.back(); }

  Sample Get(int64_t index) const override {
    const auto [stream, id] = PlaceOf(index);
    MdsReader& reader = *stream.reader;
    MdsSample record;
    ThrowIfError(reader.Read(id, record));
    Sample sample;
    for (size_t i = 0; i < record.columns.size(); ++i) AddColumn(reader.columns()[i], record.columns[i], sample);
    return sample;
  }

  void WillLoad(absl::Span<const int64_t> indices) const override {
    for (const int64_t index : indices) {
      const auto [stream, id] = PlaceOf(index);
      if (stream.ahead != nullptr) stream.ahead->Want(stream.reader->SliceOf(id));
    }
  }

  std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& request) const override {
    OrderConfig config = order_;
    if (!request.shuffle) config.shuffle = ShuffleAlgorithm::kNone;
    config.global_batch_size = request.global_batch_size;
    // Only this method makes batches for a number of ranks.
    if (config.batching == BatchingMethod::kDevicePerStream) config.world.ranks_per_node = request.data_ranks;
    return MakeShardOrder(std::move(config));
  }

 private:
  // Returns the stream of a sample and its number there.
  std::pair<const StreamReader&, int64_t> PlaceOf(int64_t index) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    const auto stream = static_cast<size_t>(end - ends_.begin());
    return {streams_[stream], index - (stream == 0 ? 0 : ends_[stream - 1])};
  }

  const std::vector<StreamReader> streams_;
  const OrderConfig order_;
  std::vector<int64_t> ends_;  // of each stream's ids
};

// Open shards, or slices, are not evicted: all readers of a bounded cache together must leave room in it.
size_t MostOpen(const MdsIndex& index, const StreamingOptions& options) {
  constexpr int64_t kUsual = 256;
  if (!options.cache_limit) return kUsual;
  int64_t largest = 1;
  for (const MdsShardInfo& shard : index.shards) largest = std::max(largest, shard.raw.bytes);
  // A slice has up to twice as many bytes as are asked for where samples differ little.
  if (options.range_bytes) largest = std::min(largest, 2 * *options.range_bytes);
  const auto readers = static_cast<int64_t>(options.streams.size()) * std::max(1, options.readers_of_cache);
  return static_cast<size_t>(std::clamp<int64_t>(*options.cache_limit / largest / readers / 2, 1, kUsual));
}

absl::StatusOr<ShardSource> FetchingSource(const StreamingOptions& options, const MdsIndex& index,
                                           const std::shared_ptr<ShardCache>& cache,
                                           const std::shared_ptr<ObjectStore>& store, const std::string& folder) {
  if (!options.range_bytes) return CachedShards(cache, store, folder, options.validate_hash);
  const absl::Status fit = CheckSlices(index);
  if (!fit.ok()) return Annotate(fit, absl::StrCat("range_bytes: ", *options.range_bytes));
  return CachedSlices(cache, store, folder);
}

absl::StatusOr<StreamReader> OpenStream(const StreamingOptions::Stream& stream, const StreamingOptions& options,
                                        const StoreOpener& open_store) {
  const std::string local = stream.split.empty() ? stream.local : JoinPath(stream.local, stream.split);
  StreamReader opened;
  if (stream.remote.empty()) {
    ASSIGN_OR_RETURN(MdsIndex index, ReadMdsIndex(local));
    ASSIGN_OR_RETURN(opened.reader, MdsReader::Create(std::move(index), LocalShards(local, options.validate_hash)));
    return opened;
  }
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(open_store, stream.remote));
  ASSIGN_OR_RETURN(MdsIndex index, FetchMdsIndex(*store, stream.split));
  ShardCacheOptions cache_options{.folder = local, .limit = options.cache_limit};
  cache_options.retry.max_tries = 1 + options.download_retry;
  cache_options.fetch_timeout = options.download_timeout;
  ASSIGN_OR_RETURN(std::shared_ptr<ShardCache> cache, ShardCache::Open(std::move(cache_options)));
  const size_t most_open = MostOpen(index, options);
  ASSIGN_OR_RETURN(ShardSource source, FetchingSource(options, index, cache, store, stream.split));
  ASSIGN_OR_RETURN(opened.reader,
                   MdsReader::Create(std::move(index), std::move(source), most_open, options.range_bytes));
  opened.ahead = std::make_unique<ShardsAhead>(
      [reader = opened.reader.get()](size_t slice) { reader->Fetch(slice).IgnoreError(); }, most_open);
  return opened;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenStreaming(const StreamingOptions& options,
                                                                  const StoreOpener& open_store) {
  std::vector<StreamReader> streams;
  OrderConfig order = options.order;
  for (const StreamingOptions::Stream& stream : options.streams) {
    absl::StatusOr<StreamReader> opened = OpenStream(stream, options, open_store);
    if (!opened.ok()) return Annotate(opened.status(), stream.remote.empty() ? stream.local : stream.remote);
    order.streams.push_back({opened->reader->ShardSizes(), stream.proportion, stream.repeat, stream.choose});
    streams.push_back(*std::move(opened));
  }
  OrderConfig checked = order;  // so that mistakes come before the run
  RETURN_IF_ERROR(Order::Create(std::move(checked)).status());
  return std::make_shared<const StreamingSource>(std::move(streams), std::move(order));
}

}  // namespace composer

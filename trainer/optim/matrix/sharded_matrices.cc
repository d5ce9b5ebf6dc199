// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/matrix/sharded_matrices.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace composer {
namespace {

constexpr int64_t kRoundElements = int64_t{1} << 24;

int64_t Size(const MatrixShape& shape) { return shape.rows * shape.columns; }

double Cost(const MatrixShape& shape) {
  return static_cast<double>(shape.rows) * static_cast<double>(shape.columns) *
         static_cast<double>(std::min(shape.rows, shape.columns));
}

}  // namespace

std::vector<int> DealMatrices(const std::vector<MatrixShape>& shapes, int ranks) {
  std::vector<size_t> order(shapes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return Cost(shapes[a]) > Cost(shapes[b]); });
  std::vector<double> load(static_cast<size_t>(ranks));
  std::vector<int> owners(shapes.size());
  for (const size_t matrix : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += Cost(shapes[matrix]);
    owners[matrix] = static_cast<int>(least - load.begin());
  }
  return owners;
}

ShardedMatrices::ShardedMatrices(const std::vector<at::Tensor>& pieces, ModelSharding& sharding) : sharding_(sharding) {
  TORCH_CHECK_VALUE(!sharding.splits_tensors(), "muon needs whole matrices, and tensor parallelism splits them");
  for (const at::Tensor& param : pieces) {
    const ModelSharding::Piece* const piece = sharding.Find(param);
    TORCH_CHECK_VALUE(piece != nullptr && piece->shape.size() == 2, "muon: a parameter is not a sharded matrix");
    const MatrixShape shape = {piece->shape[0], piece->shape[1]};
    if (rounds_.empty() || rounds_.back().elements + Size(shape) > kRoundElements)
      rounds_.push_back({places_.size(), places_.size(), 0, {}});
    places_.push_back({shape, piece->begin, piece->end, 0});
    rounds_.back().elements += Size(shape);
    ++rounds_.back().end;
  }
  for (Round& round : rounds_) Arrange(round);
}

void ShardedMatrices::Arrange(Round& round) {
  std::vector<MatrixShape> shapes;
  for (size_t i = round.begin; i < round.end; ++i) shapes.push_back(places_[i].shape);
  const std::vector<int> owners = DealMatrices(shapes, sharding_.num_shards());
  std::vector<size_t> order(shapes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) { return std::tuple(owners[i], shapes[i].rows, shapes[i].columns); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  int64_t offset = 0;
  for (size_t n = 0; n < order.size(); ++n) {
    const size_t i = order[n];
    places_[round.begin + i].offset = offset;
    if (owners[i] == sharding_.shard_index()) {
      if (round.batches.empty() || key(order[n - 1]) != key(i)) round.batches.push_back({shapes[i], offset, 0});
      ++round.batches.back().count;
    }
    offset += Size(shapes[i]);
  }
}

at::Tensor ShardedMatrices::OrthogonalizeRound(const Round& round, const std::vector<at::Tensor>& updates,
                                               const NewtonSchulz& options) {
  const auto bytes = torch::dtype(at::kBFloat16).device(sharding_.device());
  const at::Tensor whole = torch::zeros({round.elements}, bytes), directions = torch::zeros({round.elements}, bytes);
  for (size_t i = round.begin; i < round.end; ++i) {
    const Place& place = places_[i];
    if (!updates[i].defined() || place.begin == place.end) continue;
    whole.slice(0, place.offset + place.begin, place.offset + place.end).copy_(updates[i].reshape({-1}));
  }
  sharding_.SumOverShards(whole);
  for (const auto& batch : round.batches) {
    const auto part = [&batch](const at::Tensor& buffer) {
      const auto& [shape, offset, count] = batch;
      return buffer.narrow(0, offset, count * Size(shape)).view({count, shape.rows, shape.columns});
    };
    composer::Orthogonalize(part(whole), part(directions), options);
  }
  sharding_.SumOverShards(directions);
  return directions;
}

void ShardedMatrices::TakePieces(const Round& round, const at::Tensor& directions, const RowFactors& factors,
                                 const std::vector<at::Tensor>& updates, std::vector<at::Tensor>& results) const {
  for (size_t i = round.begin; i < round.end; ++i) {
    const auto& [shape, begin, end, offset] = places_[i];
    at::Tensor by_row;
    if (factors) by_row = factors(i, directions.narrow(0, offset, Size(shape)).view({shape.rows, -1}));
    if (!updates[i].defined()) continue;
    results[i] = directions.slice(0, offset + begin, offset + end);
    if (factors) {
      const auto places = torch::dtype(at::kLong).device(directions.device());
      const at::Tensor rows = at::arange(begin, end, places).div_(shape.columns, "floor");
      results[i] = results[i].to(at::kFloat).mul_(by_row.index_select(0, rows));
    }
    results[i] = results[i].to(updates[i].device());
  }
}

std::vector<at::Tensor> ShardedMatrices::Orthogonalize(const std::vector<at::Tensor>& updates,
                                                       const NewtonSchulz& options, const RowFactors& factors) {
  std::vector<at::Tensor> results(places_.size());
  for (const Round& round : rounds_)
    TakePieces(round, OrthogonalizeRound(round, updates, options), factors, updates, results);
  return results;
}

}  // namespace composer

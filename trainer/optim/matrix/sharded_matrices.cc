// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/matrix/sharded_matrices.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>

namespace composer {
namespace {

constexpr int64_t kRoundElements = int64_t{1} << 24;

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
  std::vector<MatrixShape> shapes;
  for (const at::Tensor& param : pieces) {
    const ModelSharding::Piece* const piece = sharding.Find(param);
    TORCH_CHECK_VALUE(piece != nullptr && piece->shape.size() == 2, "muon: a parameter is not a sharded matrix");
    shapes.push_back({piece->shape[0], piece->shape[1]});
    const int64_t size = piece->shape[0] * piece->shape[1];
    if (rounds_.empty() || rounds_.back().elements + size > kRoundElements)
      rounds_.push_back({places_.size(), places_.size(), 0});
    Round& round = rounds_.back();
    places_.push_back({shapes.back(), piece->begin, piece->end, round.elements, 0});
    round.elements += size;
    ++round.end;
  }
  for (const Round& round : rounds_) {
    const std::vector<int> owners = DealMatrices(
        {shapes.begin() + static_cast<int64_t>(round.begin), shapes.begin() + static_cast<int64_t>(round.end)},
        sharding.num_shards());
    for (size_t i = 0; i < owners.size(); ++i) places_[round.begin + i].owner = owners[i];
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
  for (size_t i = round.begin; i < round.end; ++i) {
    const auto& [shape, begin, end, offset, owner] = places_[i];
    if (owner != sharding_.shard_index()) continue;
    const auto matrix = [&](const at::Tensor& buffer) {
      return buffer.narrow(0, offset, shape.rows * shape.columns).view({1, shape.rows, shape.columns});
    };
    matrix(directions).copy_(composer::Orthogonalize(matrix(whole), options));
  }
  sharding_.SumOverShards(directions);
  return directions;
}

void ShardedMatrices::TakePieces(const Round& round, const at::Tensor& directions, const RowFactors& factors,
                                 const std::vector<at::Tensor>& updates, std::vector<at::Tensor>& results) const {
  for (size_t i = round.begin; i < round.end; ++i) {
    const auto& [shape, begin, end, offset, owner] = places_[i];
    at::Tensor by_row;
    if (factors) by_row = factors(i, directions.narrow(0, offset, shape.rows * shape.columns).view({shape.rows, -1}));
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

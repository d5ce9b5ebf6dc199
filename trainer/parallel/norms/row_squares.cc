// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/norms/row_squares.h"

#include <torch/types.h>

#include "trainer/parallel/fsdp/flat_layout.h"
#include "trainer/parallel/norms/power_sum.h"

namespace composer {
namespace {

RowPieces PiecesOf(const at::Tensor& param, const ModelSharding* sharding) {
  const ModelSharding::Piece* piece = sharding == nullptr ? nullptr : sharding->Find(param);
  const std::vector<int64_t> shape = piece == nullptr ? param.sizes().vec() : piece->shape;
  int64_t numel = 1;
  for (const int64_t size : shape) numel *= size;
  const int64_t rows = shape.size() < 2 ? 1 : std::max<int64_t>(1, shape[0]);
  const int64_t length = std::max<int64_t>(1, numel / rows);
  return piece == nullptr ? RowPieces{length, 0, numel} : RowPieces{length, piece->begin, piece->end};
}

// Sums are over runs that end at multiples of kFlatAlignment, where parameters are cut, and exact over runs.
ExactSum SquaresOnHost(const float* data, int64_t begin, int64_t end) {
  ExactSum sum;
  for (int64_t i = begin; i < end;) {
    const int64_t stop = std::min(end, (i / kFlatAlignment + 1) * kFlatAlignment);
    sum.Add(SquaresOfRun(data + (i - begin), stop - i));
    i = stop;
  }
  return sum;
}

// Returns the sum of squares of each row piece, as an exact sum.
std::vector<ExactSum> Squares(const at::Tensor& tensor, const RowPieces& rows) {
  std::vector<ExactSum> sums;
  const at::Tensor flat = tensor.detach().reshape(-1).to(at::kFloat);
  if (flat.is_cpu()) {
    sums.reserve(static_cast<size_t>(rows.count()));
    const auto* data = static_cast<const float*>(flat.const_data_ptr());
    for (int64_t i = 0; i < rows.count(); ++i) {
      const auto [begin, end] = rows.At(i);
      sums.push_back(SquaresOnHost(data + (begin - rows.begin), begin, end));
    }
    return sums;
  }
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < rows.count(); ++i) {
    const auto [begin, end] = rows.At(i);
    int64_t last = i;
    while (rows.is_whole(i) && last + 1 < rows.count() && rows.is_whole(last + 1)) ++last;
    const at::Tensor some = flat.slice(0, begin - rows.begin, rows.At(last).second - rows.begin);
    parts.push_back(some.reshape({last - i + 1, -1}).to(at::kDouble).square().sum(1));
    i = last;
  }
  if (parts.empty()) return sums;
  const at::Tensor host = torch::cat(parts).cpu();
  for (int64_t i = 0; i < host.numel(); ++i) sums.emplace_back().Add(host[i].item<double>());
  return sums;
}

// SharedRows exchanges the sums of the rows that are cut between ranks: only a rank's first and last row of a parameter
// can be. Layout: [parameter, shard, first or last, 1 + row index and the two sums' words]; a rank writes its places.
class SharedRows {
 public:
  SharedRows(int64_t params, ModelSharding& sharding)
      : sharding_(sharding), sums_(torch::zeros({params, sharding.num_shards(), 2, kWidth}, torch::dtype(at::kLong))) {}

  void Put(int64_t param, int edge, int64_t row, std::array<std::vector<ExactSum>, 2>& squares, size_t piece) {
    int64_t* const place = At(param, sharding_.shard_index(), edge);
    *place = row + 1;
    for (size_t i = 0; i < squares.size(); ++i) {
      const absl::Span<const int64_t> words = squares[i][piece].words();
      std::copy(words.begin(), words.end(), place + 1 + static_cast<int64_t>(i) * ExactSum::kWords);
    }
  }
  // A collective.
  void Exchange() {
    const at::Tensor there = sums_.to(sharding_.device());
    sharding_.SumOverShards(there);
    sums_ = there.cpu();
  }
  // Returns the sum of a row over all ranks that have a part of it.
  ExactSum Total(int64_t param, int64_t row, size_t which) {
    std::array<int64_t, ExactSum::kWords> words{};
    for (int shard = 0; shard < sharding_.num_shards(); ++shard) {
      for (int edge = 0; edge < 2; ++edge) {
        const int64_t* const place = At(param, shard, edge);
        if (*place != row + 1) continue;
        const int64_t* const from = place + 1 + static_cast<int64_t>(which) * ExactSum::kWords;
        for (size_t i = 0; i < words.size(); ++i) words[i] += from[i];
      }
    }
    ExactSum sum;
    sum.Set(words);
    return sum;
  }

 private:
  static constexpr int64_t kWidth = 1 + 2 * ExactSum::kWords;
  int64_t* At(int64_t param, int shard, int edge) {
    return static_cast<int64_t*>(sums_.mutable_data_ptr()) +
           ((param * sharding_.num_shards() + shard) * 2 + edge) * kWidth;
  }

  ModelSharding& sharding_;
  at::Tensor sums_;
};

// WholeRows sums over ranks with tensor parallelism, where any row can be cut: each rank adds what it has of each row
// of the whole parameters, in double.
class WholeRows {
 public:
  WholeRows(const std::vector<at::Tensor>& params, ModelSharding& sharding) : sharding_(sharding) {
    int64_t size = 0;
    for (const at::Tensor& param : params) {
      const ModelSharding::Piece* const piece = sharding.Find(param);
      const TensorSplit* const split = piece == nullptr ? nullptr : piece->split;
      const std::vector<int64_t>& shape = split != nullptr   ? split->shape
                                          : piece != nullptr ? piece->shape
                                                             : param.sizes().vec();
      const bool by_row = split != nullptr && split->dim == 0 && shape.size() > 1;
      places_.push_back({size, by_row ? split->Parts() : std::vector<TensorSplit::Part>()});
      size += shape.size() < 2 ? 1 : shape[0];
    }
    sums_ = torch::zeros({size, 2}, torch::dtype(at::kDouble));
  }

  void Sum(std::vector<RowSquares>& squares, const std::vector<at::Tensor>& params) {
    for_each(squares, [&](size_t p, ExactSum& sum, double& place) {
      if (sharding_.Counts(params[p])) place += sum.Total();
    });
    const at::Tensor there = sums_.to(sharding_.device());
    sharding_.SumOverShards(there);
    sums_ = there.cpu();
    for_each(squares, [](size_t, ExactSum& sum, double& place) {
      sum = ExactSum();
      sum.Add(place);
    });
  }

 private:
  struct Place {
    int64_t first;                         // row of sums_
    std::vector<TensorSplit::Part> parts;  // of the rows; empty: this rank's rows are the whole's
  };
  template <typename Fn>
  void for_each(std::vector<RowSquares>& squares, const Fn& fn) {
    auto* const sums = static_cast<double*>(sums_.mutable_data_ptr());
    for (size_t p = 0; p < squares.size(); ++p) {
      for (int64_t i = 0; i < squares[p].rows.count(); ++i) {
        const int64_t row = places_[p].first + WholeRow(places_[p], squares[p].rows.first() + i);
        for (int64_t which = 0; which < 2; ++which)
          fn(p, squares[p].squares[static_cast<size_t>(which)][static_cast<size_t>(i)], sums[row * 2 + which]);
      }
    }
  }
  static int64_t WholeRow(const Place& place, int64_t local) {
    for (const TensorSplit::Part& part : place.parts) {
      if (local < part.local + part.size) return part.whole + local - part.local;
    }
    return local;
  }

  ModelSharding& sharding_;
  std::vector<Place> places_;
  at::Tensor sums_;  // [rows of all parameters, parameter and gradient]
};

void SumExactly(std::vector<RowSquares>& params, ModelSharding& sharding) {
  SharedRows shared(static_cast<int64_t>(params.size()), sharding);
  const auto for_each_cut = [&](const auto& fn) {
    for (size_t p = 0; p < params.size(); ++p) {
      const int64_t last = params[p].rows.count() - 1;
      for (int64_t piece = 0; piece <= last; piece = piece == 0 && last > 0 ? last : last + 1) {
        if (!params[p].rows.is_whole(piece)) fn(p, piece, piece == 0 ? 0 : 1);
      }
    }
  };
  for_each_cut([&](size_t p, int64_t piece, int edge) {
    shared.Put(static_cast<int64_t>(p), edge, params[p].rows.first() + piece, params[p].squares,
               static_cast<size_t>(piece));
  });
  shared.Exchange();
  for_each_cut([&](size_t p, int64_t piece, int /*edge*/) {
    for (size_t which = 0; which < 2; ++which)
      params[p].squares[which][static_cast<size_t>(piece)] =
          shared.Total(static_cast<int64_t>(p), params[p].rows.first() + piece, which);
  });
}

}  // namespace

RowSquares SquaresByRow(const at::Tensor& param, const ModelSharding* sharding) {
  const RowPieces rows = PiecesOf(param, sharding);
  return {rows, {Squares(param, rows), Squares(param.grad(), rows)}};
}

void SumCutRows(const std::vector<at::Tensor>& params, std::vector<RowSquares>& squares, ModelSharding& sharding) {
  if (sharding.splits_tensors()) {
    WholeRows(params, sharding).Sum(squares, params);
  } else {
    SumExactly(squares, sharding);
  }
}

}  // namespace composer

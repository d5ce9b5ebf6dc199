// Orthogonalises matrices of which each rank has only a piece (ModelSharding), for Muon: each matrix whole by one
// rank.
//   1. the pieces are put together: a sum over the ranks of the shards, in which each rank adds its elements to zeros
//   2. each rank orthogonalises its share of the matrices (newton_schulz.h)
//   3. the results go to all in the same way, and each rank takes its piece
//
// Both sums are of bfloat16, which the iteration computes in anyway, so that nothing is rounded that is not in one
// process, and are exact, since all but one of the numbers added are 0. Per step and matrix of N elements 2 all-reduces
// of 2 N bytes; temporary memory of 4 bytes an element for up to 2^24 elements at a time. Matrices are dealt by their
// cost, R C min(R, C), the most expensive first to the rank with the least so far; those of one shape that a rank has
// lie side by side and are orthogonalised together. After 3. each rank has all results,
// so that what is computed from whole ones (RowFactors) needs no further exchange.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "trainer/core/model_sharding.h"
#include "trainer/optim/matrix/newton_schulz.h"

namespace composer {

// An optimizer that can work with pieces of parameters when it knows how they are spread. The trainer calls UseSharding
// once, after construction and before the first step; `sharding` outlives the optimizer.
class ShardedOptimizer {
 public:
  virtual ~ShardedOptimizer() = default;
  virtual void UseSharding(ModelSharding& sharding) = 0;
};

struct MatrixShape {
  int64_t rows = 0, columns = 0;
};

// Returns [rows], float32: what the rows of an orthogonalised matrix [rows, columns] are multiplied with (NorMuon).
// Called for every matrix, on all ranks with the same values.
using RowFactors = std::function<at::Tensor(size_t matrix, const at::Tensor& direction)>;

// Returns for each matrix the rank that orthogonalises it. Pure; the same on all ranks.
std::vector<int> DealMatrices(const std::vector<MatrixShape>& shapes, int ranks);

class ShardedMatrices {
 public:
  // `pieces` are parameters of the sharding, of two dimensions, and not split (ModelSharding::splits_tensors). Throws
  // c10::ValueError otherwise.
  ShardedMatrices(const std::vector<at::Tensor>& pieces, ModelSharding& sharding);

  // A collective. updates[i] is this rank's piece of a matrix, as long as the parameter's, or undefined if it has none;
  // then there is none on all ranks that hold elements of it. Returns the pieces of the orthogonalised matrices,
  // bfloat16 (with factors float32), one-dimensional; undefined where updates are. factors may be empty.
  std::vector<at::Tensor> Orthogonalize(const std::vector<at::Tensor>& updates, const NewtonSchulz& options,
                                        const RowFactors& factors = {});

  const MatrixShape& shape(size_t matrix) const { return places_[matrix].shape; }

 private:
  struct Place {
    MatrixShape shape;
    int64_t begin = 0, end = 0;  // this rank's piece, in the flattened matrix
    int64_t offset = 0;          // of the matrix in the buffer of its round
  };
  struct Batch {  // of matrices of one shape that lie side by side
    MatrixShape shape;
    int64_t offset = 0, count = 0;
  };
  struct Round {
    size_t begin = 0, end = 0;  // matrices
    int64_t elements = 0;
    std::vector<Batch> batches;  // of this rank
  };
  // Deals the round's matrices and gives each its place in the buffer.
  void Arrange(Round& round);
  // Returns the orthogonalised matrices of the round, one after the other.
  at::Tensor OrthogonalizeRound(const Round& round, const std::vector<at::Tensor>& updates,
                                const NewtonSchulz& options);
  void TakePieces(const Round& round, const at::Tensor& directions, const RowFactors& factors,
                  const std::vector<at::Tensor>& updates, std::vector<at::Tensor>& results) const;

  ModelSharding& sharding_;
  std::vector<Place> places_;
  std::vector<Round> rounds_;
};

}  // namespace composer

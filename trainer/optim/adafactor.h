// Adafactor: of a matrix's squared gradients only the means of rows and columns are kept, and steps follow the size of
// the parameter. State of [n, m] is n + m numbers, where Adam has 2 n m.
//
// For each parameter p with a gradient g, t = the number of its updates, this one included:
//   b = t^beta2_decay;  a = max(eps2, rms(p)) min(lr, 1 / sqrt(t));  p <- p (1 - lr weight_decay)
//   of two dimensions or more  r <- r + b (mean of g^2 over columns - r);  c <- c + b (mean of g^2 over rows - c);
//                              v = r c / max(mean of r over rows, eps1)
//   else                       v <- v + b (g^2 - v)
//   u = g / sqrt(max(v, eps1^2));  p <- p - a u / max(1, rms(u) / d)
// Source: Shazeer & Stern 2018, arxiv.org/abs/1804.04235; torch/optim/_adafactor.py (2.11). Not ported: maximize.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/optimizer.h"

namespace composer {

// torch's arguments and defaults.
struct AdafactorOptions {
  double beta2_decay = -0.8;   // <= 0
  std::optional<double> eps1;  // >= 0; without it the distance from 1 to the next number of the parameter's type
  double eps2 = 1e-3;          // >= 0
  double d = 1;                // >= 1
};
// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const AdafactorOptions& options);

class AdafactorOptimizer final : public Optimizer {
 public:
  // Throws c10::ValueError for invalid options, and unless the parameters are floating-point.
  AdafactorOptimizer(std::vector<ParamGroup> groups, const AdafactorOptions& options);
  std::string name() const override { return "Adafactor"; }
  absl::string_view needs_whole_parameters() const override { return "adafactor needs whole rows and columns"; }
  void Step() override;
  // Returns "<parameter>/row_var" [..., n, 1] and "<parameter>/col_var" [..., 1, m], or "<parameter>/variance", and
  // "group<index>/step": [parameters of the group], double.
  NamedTensors state() override;

 private:
  // What is kept of a parameter: row_var and col_var, or variance.
  struct Kept {
    at::Tensor row_var, col_var, variance;
  };
  void Update(const ParamGroup& group, const at::Tensor& param, Kept& kept, double step) const;

  AdafactorOptions options_;
  std::vector<std::vector<Kept>> kept_;  // by group and parameter
  std::vector<at::Tensor> steps_;        // by group
};

}  // namespace composer

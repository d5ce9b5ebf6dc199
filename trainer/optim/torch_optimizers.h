// torch.optim's Adagrad, Adadelta, Adamax, NAdam, RAdam, ASGD and Rprop, for their users' recipes.
//
// For each parameter p with a gradient g, t = the number of its updates, this one included; but for Rprop first
// g <- g + weight_decay p (NAdam, RAdam with decoupled_weight_decay: p <- p (1 - lr weight_decay)):
//   Adagrad   s <- s + g^2;  p <- p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
//   Adadelta  v <- rho v + (1 - rho) g^2;  d = sqrt(a + eps) / sqrt(v + eps) g;  a <- rho a + (1 - rho) d^2;
//             p <- p - lr d
//   Adamax    m <- beta1 m + (1 - beta1) g;  u <- max(beta2 u, |g| + eps);  p <- p - lr / (1 - beta1^t) m / u
//   NAdam     mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2), M = mu(1) ... mu(t);  m, v as Adam;
//             d = sqrt(v / (1 - beta2^t)) + eps;
//             p <- p - lr (1 - mu(t)) / (1 - M) g / d - lr mu(t+1) / (1 - M mu(t+1)) m / d
//   RAdam     r(t) = R - 2 t beta2^t / (1 - beta2^t), R = 2 / (1 - beta2) - 1;  m, v as Adam, M = m / (1 - beta1^t);
//             r(t) > 5:  p <- p - lr M sqrt((r-4)(r-2)R / ((R-4)(R-2)r)) sqrt(1 - beta2^t) / (sqrt(v) + eps)
//             else       p <- p - lr M
//   ASGD      p <- p (1 - lambd eta) - eta g;  x <- x + mu (p - x);  then eta = lr / (1 + lambd lr t)^alpha,
//             mu = 1 / max(1, t - t0); x (`ax`) is in the state and not used for training
//   Rprop     f = eta_plus, eta_minus or 1 by the sign of g * (the g before);  s <- f s within step_sizes, at first the
//             learning rate;  p <- p - sign(g) s, not where f = eta_minus. Later learning rates have no effect
// Every step takes a few at::_foreach_* calls a group. beta1 is ParamGroup::momentum.
//
// Source: torch/optim/{adagrad,adadelta,adamax,nadam,radam,asgd,rprop}.py (2.11). Not ported: maximize, capturable,
// differentiable. SparseAdam needs sparse gradients, which no layer here makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "trainer/optim/foreach_optimizer.h"

namespace composer {

// torch's arguments and defaults. Validate returns kInvalidArgument that names the field, its value and its range.
struct AdagradOptions {
  double lr_decay = 0;                   // >= 0
  double initial_accumulator_value = 0;  // >= 0
  double eps = 1e-10;                    // >= 0
};
struct AdadeltaOptions {
  double rho = 0.9;   // [0, 1]
  double eps = 1e-6;  // >= 0
};
struct AdamaxOptions {
  double beta1 = 0.9;    // [0, 1)
  double beta2 = 0.999;  // [0, 1)
  double eps = 1e-8;     // >= 0
};
struct NAdamOptions {
  double beta1 = 0.9;            // [0, 1)
  double beta2 = 0.999;          // [0, 1)
  double eps = 1e-8;             // >= 0
  double momentum_decay = 4e-3;  // >= 0
  bool decoupled_weight_decay = false;
};
struct RAdamOptions {
  double beta1 = 0.9;    // [0, 1)
  double beta2 = 0.999;  // [0, 1)
  double eps = 1e-8;     // >= 0
  bool decoupled_weight_decay = false;
};
struct AsgdOptions {
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
};
struct RpropOptions {
  double eta_minus = 0.5;  // (0, 1)
  double eta_plus = 1.2;   // > 1
  double min_step = 1e-6;  // >= 0
  double max_step = 50;    // >= min_step
};
absl::Status Validate(const AdagradOptions& options);
absl::Status Validate(const AdadeltaOptions& options);
absl::Status Validate(const AdamaxOptions& options);
absl::Status Validate(const NAdamOptions& options);
absl::Status Validate(const RAdamOptions& options);
absl::Status Validate(const AsgdOptions& options);
absl::Status Validate(const RpropOptions& options);

// An optimizer of one of these options. The constructor throws c10::Error for invalid options.
class AdagradOptimizer final : public ForeachOptimizer {
 public:
  AdagradOptimizer(std::vector<ParamGroup> groups, const AdagradOptions& options);

 private:
  void Update(const ParamGroup& group, const Active& active) override;
  AdagradOptions options_;
};

class AdadeltaOptimizer final : public ForeachOptimizer {
 public:
  AdadeltaOptimizer(std::vector<ParamGroup> groups, const AdadeltaOptions& options);

 private:
  void Update(const ParamGroup& group, const Active& active) override;
  AdadeltaOptions options_;
};

class AdamaxOptimizer final : public ForeachOptimizer {
 public:
  AdamaxOptimizer(std::vector<ParamGroup> groups, const AdamaxOptions& options);

 private:
  void Update(const ParamGroup& group, const Active& active) override;
  AdamaxOptions options_;
};

class NAdamOptimizer final : public ForeachOptimizer {
 public:
  NAdamOptimizer(std::vector<ParamGroup> groups, const NAdamOptions& options);

 private:
  void Update(const ParamGroup& group, const Active& active) override;
  NAdamOptions options_;
};

class RAdamOptimizer final : public ForeachOptimizer {
 public:
  RAdamOptimizer(std::vector<ParamGroup> groups, const RAdamOptions& options);

 private:
  void Update(const ParamGroup& group, const Active& active) override;
  RAdamOptions options_;
};

class AsgdOptimizer final : public ForeachOptimizer {
 public:
  AsgdOptimizer(std::vector<ParamGroup> groups, const AsgdOptions& options);

 private:
  void Update(const ParamGroup& group, const Active& active) override;
  AsgdOptions options_;
};

class RpropOptimizer final : public ForeachOptimizer {
 public:
  // The groups' first learning rates are the first step sizes; weight_decay is not used.
  RpropOptimizer(std::vector<ParamGroup> groups, const RpropOptions& options);

 private:
  void Update(const ParamGroup& group, const Active& active) override;
  RpropOptions options_;
};

}  // namespace composer

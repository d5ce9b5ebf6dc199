// Metrics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/metric.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/auroc.h"
#include "trainer/metrics/bleu.h"
#include "trainer/metrics/confusion_matrix.h"
#include "trainer/metrics/correlation.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/f1_score.h"
#include "trainer/metrics/icl_accuracy.h"
#include "trainer/metrics/known_loss.h"
#include "trainer/metrics/loss_metric.h"
#include "trainer/metrics/metric_by_name.h"
#include "trainer/metrics/metric_sums.h"
#include "trainer/metrics/recall_at_k.h"
#include "trainer/metrics/segmentation.h"
#include "trainer/metrics/squared_error.h"
#include "trainer/metrics/ssim.h"

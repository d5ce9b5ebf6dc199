// Metrics, under Composer's (torchmetrics') class names.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kMetricKeys[] = R"(
[metric BinaryAUROC] The area under the ROC curve of two classes; for evaluations.
ignore_index | int | - | A target that does not count.

[metric BinaryF1Score] The F1 score of two classes.
ignore_index | int | - | A target that does not count.

[metric BinaryMatthewsCorrCoef] Matthews' correlation of two classes.
ignore_index | int | - | A target that does not count.

[metric CrossEntropy] The cross-entropy.
ignore_index | int | -100 | A target that does not count.
batch_mean | bool | false | The average of the batches' values, as Composer.

[metric Dice] The Dice score.
num_classes | int 1.. | required | Classes.
batch_mean | bool | false | The average of the batches' values, as Composer.

[metric LanguageCrossEntropy] The cross-entropy of tokens.
ignore_index | int | -100 | A target that does not count.

[metric LanguagePerplexity] The perplexity of tokens.
ignore_index | int | -100 | A target that does not count.

[metric LossMetric] A loss as a metric.
loss_name | one of soft_cross_entropy, cross_entropy, binary_cross_entropy_with_logits, nll_loss, mse_loss, l1_loss, \
dice_loss | soft_cross_entropy | Which, as of model.loss_name.
batch_mean | bool | false | The average of the batches' values, as Composer.

[metric MIoU] The mean intersection over union.
num_classes | int 1.. | required | Classes.
ignore_index | int | -1 | A target that does not count.

[metric MaskedAccuracy] The accuracy of what is not masked.
ignore_index | int | -100 | A target that does not count.

[metric MulticlassAccuracy] The accuracy.
top_k | int 1.. | 1 | A target counts as right when it is among so many of the likeliest classes.

[metric MulticlassConfusionMatrix] How often each class was taken for each other one: a table after each evaluation.
num_classes | int 1.. | required | Classes.
ignore_index | int | - | A target that does not count.

[metric MulticlassF1Score] The F1 score.
num_classes | int 1.. | required | Classes.
average | one of macro, micro, weighted | macro | Over classes.
ignore_index | int | - | A target that does not count.

[metric MulticlassMatthewsCorrCoef] Matthews' correlation.
num_classes | int 1.. | required | Classes.
ignore_index | int | - | A target that does not count.

[metric PearsonCorrCoef] Pearson's correlation of outputs and targets.

[metric SSIM] The structural similarity of pictures.
data_range | number 1e-06.. | required | The largest value of a picture less the smallest.

[metric SpearmanCorrCoef] Spearman's correlation of outputs and targets; for evaluations.
)";

}  // namespace composer

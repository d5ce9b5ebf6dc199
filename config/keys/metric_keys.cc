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

[metric MIoU] The mean intersection over union.
num_classes | int 1.. | required | Classes.
ignore_index | int | -1 | A target that does not count.

[metric MaskedAccuracy] The accuracy of what is not masked.
ignore_index | int | -100 | A target that does not count.

[metric MulticlassAccuracy] The accuracy.

[metric MulticlassF1Score] The F1 score.
num_classes | int 1.. | required | Classes.
average | one of macro, micro, weighted | macro | Over classes.
ignore_index | int | - | A target that does not count.

[metric MulticlassMatthewsCorrCoef] Matthews' correlation.
num_classes | int 1.. | required | Classes.
ignore_index | int | - | A target that does not count.

[metric PearsonCorrCoef] Pearson's correlation of outputs and targets.

[metric SpearmanCorrCoef] Spearman's correlation of outputs and targets; for evaluations.
)";

}  // namespace composer

// Splits a model over the ranks of a tensor-parallel group by a plan of its layers (options/layer_plan.h): any model
// whose Linear layers are held in slots, also after surgery.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/communicator.h"
#include "trainer/options/layer_plan.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

namespace composer {

// Puts this rank's parts (split_linear.h) into the slots of the layers that the plan names, with their values if they
// have some. The group must outlive the model. Every rank of it must be given the same batches, and gets the same
// outputs.
//
// Throws c10::ValueError, naming the plan's row and the layer, when a row chooses nothing (with the nearest name) or a
// layer that another row chooses as well, that is no Linear, is in no slot, has a parameter which is also elsewhere, or
// whose features do not split over the ranks; and when a part of the features would go astray. Layers with parameters
// are taken in the order of the model: after ColwiseParallel layers there must come, before any layer that the plan
// does not name, a RowwiseParallel one that takes as many features. Attention beside a split layer must be able to
// compute some of the heads alone (AttentionCore::TakeHeads), and a SequenceParallel layer must be beside a
// ColwiseParallel one that makes heads.
void SplitByPlan(torch::nn::Module& model, const LayerPlan& plan, Communicator& group);

}  // namespace composer

// Evaluations whose questions the model answers in its own words (data/icl_source.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/communicator.h"
#include "trainer/core/state.h"
#include "trainer/data/icl_source.h"

namespace composer {

// Returns the evaluator's data if the model is to answer it with texts of its own, else null.
const PromptDataset* PromptsOf(const Evaluator& evaluator);

// Puts a text for each sample of State::batch into it, under kGenerationsKey. All ranks call it together, also those
// whose batch is empty; `communicator` has the ranks with other samples. Throws what generating throws.
void AnswerPrompts(const PromptDataset& data, State& state, Communicator& communicator);

// What a rank does while others make a pass that it has no samples for.
void SkipEvalForward(const Evaluator& evaluator, State& state, Communicator& communicator);

}  // namespace composer

// Where an error of a model, a dataset or a plugin happened: module, step, samples and native stack, put behind its message.
// Nothing is noted while all goes well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainer/core/state.h"

namespace composer {

// An exception is leaving the module's forward: of nested modules the first, which is the innermost, is kept, for each thread.
void NoteFailingModule(const torch::nn::Module& module);
// Forgets it. Null: none was noted.
const torch::nn::Module* TakeFailingModule();

// To be called in a catch block. Throws a StatusError with the code and message of what was caught, and with the place:
//   \n  in model.blocks.3.attn, forward of batch 13 (epoch 1), samples 3, 17, 20, … (8)\n  at gpt::Attention::forward …
// where: "forward of batch 13 (epoch 1)".
// What carries a Status already (collectives, callbacks, our own checks), out of memory and lost peers are thrown as they are.
[[noreturn]] void RethrowWithPlace(const State& state, absl::string_view where);

// "samples 3, 17, 20, … (8)": the first eight and the number of all.
std::string SamplesText(absl::Span<const int64_t> ids);

// The functions that the error passed through, innermost first, at most 16, a line each: "\n  at NAME (LIBRARY)"; without
// addresses, so that the same error has the same text. "": it has none.
std::string StackText(const c10::Error& error);
// The same of what a c10 backtrace says.
std::string FramesOf(absl::string_view backtrace);

}  // namespace composer

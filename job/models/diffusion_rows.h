// Latent diffusion by name: its autoencoder, its U-Net, and both with a text encoder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "job/models/vision_rows.h"

namespace composer {

std::vector<ModelRow> DiffusionModelRows();

}  // namespace composer

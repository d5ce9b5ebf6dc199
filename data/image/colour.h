// Changing the colours of 8-bit images with 1 channel (grey) or 3 (red, green, blue), to the bytes that PIL gives.
// Source: Pillow 11.3's ImageOps, ImageEnhance and HSV, by their results (tests/golden/images.json).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/image/pixels.h"

namespace composer {

// Each channel is stretched so that its darkest value becomes 0 and its lightest 255.
Pixels Autocontrast(const PixelView& image);
// Each channel is mapped such that its values are about equally frequent.
Pixels Equalize(const PixelView& image);
// Keeps the highest `bits` bits, 0 to 8.
Pixels Posterize(const PixelView& image, int bits);
// Inverts values from `threshold` on.
Pixels Solarize(const PixelView& image, int threshold);

// The image beside a lesser one: lesser + factor (image - lesser), cut off and rounded down. 0 is the lesser one, 1 the
// image; factors above 1 go beyond it.
Pixels AdjustColour(const PixelView& image, double factor);      // lesser: grey. torchvision's saturation
Pixels AdjustContrast(const PixelView& image, double factor);    // its mean grey
Pixels AdjustBrightness(const PixelView& image, double factor);  // black
Pixels AdjustSharpness(const PixelView& image, double factor);   // smoothed by 3 x 3 pixels, at the edges unchanged

// Shifts the hue by this part of the colour circle, -0.5 to 0.5, through PIL's 8-bit HSV. torchvision's adjust_hue.
Pixels ShiftHue(const PixelView& image, double part);

}  // namespace composer

// SPDX-License-Identifier: Apache-2.0
#include "data/image/colour.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "data/image/decode.h"

namespace composer {
namespace {

using Table = std::array<uint8_t, 256>;
using Counts = std::array<int64_t, 256>;

template <typename T>
uint8_t Clipped(T value) {
  return static_cast<uint8_t>(std::clamp<T>(value, 0, 255));
}

Table Identity() {
  Table table;
  std::iota(table.begin(), table.end(), uint8_t{0});
  return table;
}

Counts CountsOf(const PixelView& image, int64_t channel) {
  Counts counts{};
  for (int64_t i = channel; i < image.size(); i += image.channels) ++counts[image.bytes[i]];
  return counts;
}

// `table_of` gives a channel's table from its counts.
template <typename Fn>
Pixels MapChannels(const PixelView& image, Fn table_of) {
  Pixels result(image.height, image.width, image.channels);
  for (int64_t c = 0; c < image.channels; ++c) {
    const Table table = table_of(CountsOf(image, c));
    for (int64_t i = c; i < image.size(); i += image.channels) result.bytes[i] = table[image.bytes[i]];
  }
  return result;
}

Pixels MapValues(const PixelView& image, const Table& table) {
  Pixels result(image.height, image.width, image.channels);
  for (int64_t i = 0; i < image.size(); ++i) result.bytes[i] = table[image.bytes[i]];
  return result;
}

Table StretchTable(const Counts& counts) {
  const auto is_there = [](int64_t count) { return count > 0; };
  const auto low = std::find_if(counts.begin(), counts.end(), is_there) - counts.begin();
  const auto high = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_there) - 1;
  if (high <= low) return Identity();
  const double scale = 255.0 / static_cast<double>(high - low), offset = static_cast<double>(-low) * scale;
  Table table;
  for (int i = 0; i < 256; ++i) table[i] = Clipped(static_cast<int>(i * scale + offset));
  return table;
}

Table EqualTable(const Counts& counts) {
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t count) { return count > 0; });
  const int64_t step = last == counts.rend() ? 0 : (sum - *last) / 255;
  if (step == 0) return Identity();  // also one value only
  Table table;
  int64_t n = step / 2;
  for (int i = 0; i < 256; ++i) {
    table[i] = Clipped(n / step);
    n += counts[i];
  }
  return table;
}

// lesser_at(i) is the lesser image's byte i.
template <typename Fn>
Pixels Beyond(const PixelView& image, double factor, Fn lesser_at) {
  Pixels result(image.height, image.width, image.channels);
  const auto part = static_cast<float>(factor);
  for (int64_t i = 0; i < image.size(); ++i) {
    const int lesser = lesser_at(i);
    result.bytes[i] =
        Clipped(static_cast<float>(lesser) + part * static_cast<float>(static_cast<int>(image.bytes[i]) - lesser));
  }
  return result;
}

uint8_t GreyAt(const PixelView& image, int64_t pixel) {
  return image.channels == 1 ? image.bytes[pixel] : Luma(image.bytes + 3 * pixel);
}

Pixels Smoothed(const PixelView& image) {
  Pixels result(image);
  if (image.height < 3 || image.width < 3) return result;
  const float one = 1.0F / 13.0F, middle = 5.0F / 13.0F;
  const int64_t d = image.channels;
  for (int64_t y = 1; y + 1 < image.height; ++y) {
    const uint8_t *above = image.row(y - 1), *here = image.row(y), *below = image.row(y + 1);
    uint8_t* to = result.row(y);
    const auto sum_of = [&](const uint8_t* row, int64_t i, float weight) {
      return static_cast<float>(row[i - d]) * one + static_cast<float>(row[i]) * weight +
             static_cast<float>(row[i + d]) * one;
    };
    for (int64_t i = d; i < image.stride() - d; ++i) {
      float sum = 0.5F;
      sum += sum_of(below, i, one);
      sum += sum_of(here, i, middle);
      sum += sum_of(above, i, one);
      to[i] = Clipped(sum);
    }
  }
  return result;
}

struct Hsv {
  uint8_t h = 0, s = 0, v = 0;
};

Hsv ToHsv(const uint8_t* rgb) {
  const int high = std::max({rgb[0], rgb[1], rgb[2]}), low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {0, 0, static_cast<uint8_t>(high)};
  const auto range = static_cast<float>(high - low);
  const float s = range / static_cast<float>(high);
  const float r = static_cast<float>(high - rgb[0]) / range, g = static_cast<float>(high - rgb[1]) / range,
              b = static_cast<float>(high - rgb[2]) / range;
  float h = 0;
  if (rgb[0] == high) {
    h = b - g;
  } else if (rgb[1] == high) {
    h = static_cast<float>(2.0 + r - b);
  } else {
    h = static_cast<float>(4.0 + g - r);
  }
  h = static_cast<float>(std::fmod(h / 6.0 + 1.0, 1.0));
  return {Clipped(static_cast<int>(h * 255.0)), Clipped(static_cast<int>(s * 255.0)), static_cast<uint8_t>(high)};
}

void FromHsv(const Hsv& hsv, uint8_t* rgb) {
  if (hsv.s == 0) {
    std::fill(rgb, rgb + 3, hsv.v);
    return;
  }
  const double sixth = static_cast<double>(static_cast<float>(hsv.h)) * 6.0 / 255.0;
  const int i = static_cast<int>(std::floor(sixth));
  const auto f = static_cast<float>(sixth - static_cast<double>(static_cast<float>(i)));
  const auto s = static_cast<float>(static_cast<double>(static_cast<float>(hsv.s)) / 255.0);
  const auto v = static_cast<float>(hsv.v);
  const uint8_t p = Clipped(static_cast<int>(std::round(v * (1.0 - s))));
  const uint8_t q = Clipped(static_cast<int>(std::round(v * (1.0 - s * f))));
  const uint8_t t = Clipped(static_cast<int>(std::round(v * (1.0 - s * (1.0 - f)))));
  const uint8_t sectors[6][3] = {{hsv.v, t, p}, {q, hsv.v, p}, {p, hsv.v, t},
                                 {p, q, hsv.v}, {t, p, hsv.v}, {hsv.v, p, q}};
  std::copy_n(sectors[i % 6], 3, rgb);
}

}  // namespace

Pixels Autocontrast(const PixelView& image) { return MapChannels(image, StretchTable); }

Pixels Equalize(const PixelView& image) { return MapChannels(image, EqualTable); }

Pixels Posterize(const PixelView& image, int bits) {
  Table table;
  for (int i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(i & ~((1 << (8 - bits)) - 1));
  return MapValues(image, table);
}

Pixels Solarize(const PixelView& image, int threshold) {
  Table table;
  for (int i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(i < threshold ? i : 255 - i);
  return MapValues(image, table);
}

Pixels AdjustColour(const PixelView& image, double factor) {
  Pixels grey(image.height, image.width, image.channels);
  for (int64_t i = 0; i < image.height * image.width; ++i)
    std::fill_n(grey.bytes.data() + i * image.channels, image.channels, GreyAt(image, i));
  return Beyond(image, factor, [&](int64_t i) { return grey.bytes[i]; });
}

Pixels AdjustContrast(const PixelView& image, double factor) {
  const int64_t pixels = image.height * image.width;
  int64_t sum = 0;
  for (int64_t i = 0; i < pixels; ++i) sum += GreyAt(image, i);
  const int mean = static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
  return Beyond(image, factor, [&](int64_t) { return mean; });
}

Pixels AdjustBrightness(const PixelView& image, double factor) {
  return Beyond(image, factor, [](int64_t) { return 0; });
}

Pixels AdjustSharpness(const PixelView& image, double factor) {
  const Pixels smooth = Smoothed(image);
  return Beyond(image, factor, [&](int64_t i) { return smooth.bytes[i]; });
}

Pixels ShiftHue(const PixelView& image, double part) {
  Pixels result(image);
  if (image.channels != 3) return result;
  const auto shift = static_cast<uint8_t>(static_cast<int32_t>(part * 255));
  for (int64_t i = 0; i < image.size(); i += 3) {
    Hsv hsv = ToHsv(image.bytes + i);
    hsv.h = static_cast<uint8_t>(hsv.h + shift);
    FromHsv(hsv, result.bytes.data() + i);
  }
  return result;
}

}  // namespace composer

// Decoding and every operation on pixels against PIL's and torchvision's bytes, and what hostile files do.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "data/image/augment.h"
#include "data/image/colour.h"
#include "data/image/decode.h"
#include "data/image/resample.h"
#include "data/image/warp.h"

namespace composer {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const Json& Golden() {
  static const Json& golden = *new Json(Json::parse(ReadFile("tests/golden/images.json").value()));
  return golden;
}

std::string BytesOf(const Json& text) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(text.get<std::string>(), &bytes));
  return bytes;
}

Pixels PixelsOf(const Json& row, const char* key, int64_t channels) {
  const std::string bytes = BytesOf(row[key]);
  Pixels image(row["height"], row["width"], channels);
  EXPECT_EQ(bytes.size(), image.bytes.size());
  std::copy(bytes.begin(), bytes.end(), image.bytes.begin());
  return image;
}

// The largest difference of two bytes, or 256 for images of different sizes.
int Distance(const Pixels& a, const Pixels& b) {
  if (a.height != b.height || a.width != b.width || a.channels != b.channels) return 256;
  int most = 0;
  for (size_t i = 0; i < a.bytes.size(); ++i) most = std::max(most, std::abs(a.bytes[i] - b.bytes[i]));
  return most;
}

std::string FileOf(const std::string& name) {
  for (const Json& row : Golden()["files"]) {
    if (row["name"] == name) return BytesOf(row["file"]);
  }
  ADD_FAILURE() << name;
  return "";
}

TEST(DecodeImage, GivesPilsPixels) {
  for (const Json& row : Golden()["files"]) {
    SCOPED_TRACE(row["name"]);
    const std::string file = BytesOf(row["file"]);
    const absl::StatusOr<Pixels> image = DecodeImage(file, 3);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(Distance(*image, PixelsOf(row, "rgb", 3)), 0);
    EXPECT_EQ(DecodeImage(file, 1)->bytes.size(), static_cast<size_t>(image->height * image->width));
    const std::string name = row["name"];
    const int64_t own = name == "png_rgba"                                             ? 4
                        : name == "png_grey_alpha"                                     ? 2
                        : name.find("grey") != std::string::npos || name == "png_bits" ? 1
                                                                                       : 3;
    EXPECT_EQ(DecodeImage(file, 0)->channels, own);
    EXPECT_EQ(DecodeImage(file, 4)->channels, 4);
  }
}

TEST(DecodeImage, RefusesWhatIsCutOffAnywhere) {
  for (const Json& row : Golden()["files"]) {
    SCOPED_TRACE(row["name"]);
    const std::string file = BytesOf(row["file"]);
    for (size_t length = 0; length + 2 < file.size(); length += 7)
      EXPECT_FALSE(DecodeImage(file.substr(0, length)).ok()) << length;
  }
  EXPECT_THAT(DecodeImage(FileOf("jpeg_420").substr(0, 700)).status().message(), HasSubstr("cut off"));
  EXPECT_THAT(DecodeImage(FileOf("png_rgb").substr(0, 700)).status().message(), HasSubstr("cut off"));
}

TEST(DecodeImage, BoundsWhatAFileMayAskFor) {
  for (const char* const name : {"jpeg_420", "png_rgb"})
    EXPECT_TRUE(absl::IsResourceExhausted(DecodeImage(FileOf(name), 3, 27 * 33 - 1).status())) << name;
  std::string jpeg = FileOf("jpeg_420");  // its frame says 8192 x 8192 in 2 KB
  const size_t frame = jpeg.find("\xff\xc0");
  jpeg.replace(frame + 5, 4, std::string("\x20\x00\x20\x00", 4));
  EXPECT_THAT(DecodeImage(jpeg).status().message(), HasSubstr("cannot hold 8192 x 8192 pixels"));
  std::string damaged = FileOf("png_rgb");
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_THAT(DecodeImage(damaged).status().message(), HasSubstr("damaged"));
  EXPECT_THAT(DecodeImage("GIF89a").status().message(), HasSubstr("neither a JPEG nor a PNG"));
}

using Arguments = std::vector<double>;

Pixels RunOperation(const std::string& name, const Arguments& a, const PixelView& image) {
  const auto operation = [&](ImageOperation kind) { return Apply({kind, a.empty() ? 0 : a[0]}, image); };
  const auto whole = [&](size_t i) { return static_cast<int64_t>(a[i]); };
  if (name == "autocontrast") return operation(ImageOperation::kAutocontrast);
  if (name == "equalize") return operation(ImageOperation::kEqualize);
  if (name == "posterize") return operation(ImageOperation::kPosterize);
  if (name == "solarize") return operation(ImageOperation::kSolarize);
  if (name == "rotate") return operation(ImageOperation::kRotate);
  if (name == "shear_x") return operation(ImageOperation::kShearX);
  if (name == "shear_y") return operation(ImageOperation::kShearY);
  if (name == "translate_x") return operation(ImageOperation::kTranslateX);
  if (name == "translate_y") return operation(ImageOperation::kTranslateY);
  if (name == "color") return operation(ImageOperation::kColour);
  if (name == "contrast") return operation(ImageOperation::kContrast);
  if (name == "brightness") return operation(ImageOperation::kBrightness);
  if (name == "sharpness") return operation(ImageOperation::kSharpness);
  const Sampling sampling = name.find("nearest") != std::string::npos ? Sampling::kNearest : Sampling::kBilinear;
  if (name == "rotate_nearest") return Rotate(image, a[0], sampling);
  if (name.find("affine") == 0)
    return Warp(image, AffineMatrix(image.width, image.height, {a[0], a[1], a[2], a[3], a[4], a[5]}), sampling);
  if (name.find("perspective") == 0) {
    const auto right = static_cast<double>(image.width - 1), bottom = static_cast<double>(image.height - 1);
    const Corners from = {{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
    const Corners to = {{{a[0], a[1]}, {a[2], a[3]}, {a[4], a[5]}, {a[6], a[7]}}};
    return WarpPerspective(image, PerspectiveCoefficients(from, to), sampling);
  }
  if (name == "invert") return Solarize(image, 0);
  if (name == "gaussian_blur") return GaussianBlur(image, whole(0), a[1]);
  if (name == "hue") return ShiftHue(image, a[0]);
  if (name == "resize") return Resize(image, whole(0), whole(1));
  if (name == "grey") return WithChannels(Pixels(image), 1);
  const Pixels crop = Crop(image, whole(0), whole(1), whole(2), whole(3));
  return name == "crop" ? crop : Resize(crop.view(), whole(4), whole(5));
}

TEST(ImageOperations, GivePilsBytes) {
  Pixels image;
  int cases = 0;
  for (const Json& row : Golden()["operations"]) {
    const std::string name = row["name"];
    if (name == "picture") {
      image = PixelsOf(row, "pixels", row["channels"]);
      continue;
    }
    const Pixels expected = PixelsOf(row, "pixels", name == "grey" ? 1 : image.channels);
    EXPECT_EQ(Distance(RunOperation(name, row["arguments"], image.view()), expected), 0)
        << name << " " << row["arguments"] << " of " << image.channels << " channels";
    ++cases;
  }
  EXPECT_EQ(cases, 150);
}

TEST(PixelMemory, EveryImageHasItsOwnWhicheverThreadFreesIt) {
  std::vector<Pixels> images;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      for (int64_t i = 0; i < 4; ++i) {
        images.push_back(Pixels::Unset(200 + 40 * i, 300, 3));
        std::fill(images.back().bytes.begin(), images.back().bytes.end(), static_cast<uint8_t>(images.size()));
      }
      Pixels zeros(250, 300, 3);
      EXPECT_EQ(std::count(zeros.bytes.begin(), zeros.bytes.end(), 0), 250 * 300 * 3) << "not what was there before";
      images.erase(images.begin());  // another's
    }).join();
    for (const Pixels& image : images)
      EXPECT_EQ(std::count(image.bytes.begin(), image.bytes.end(), image.bytes[0]), image.view().size());
    if (round % 3 == 0) images.clear();
  }
}

TEST(ImageOperations, WorkOnOnePixel) {
  for (const int channels : {1, 3}) {
    Pixels pixel(1, 1, channels);
    pixel.bytes.assign(pixel.bytes.size(), 100);
    for (int i = 0; i <= static_cast<int>(ImageOperation::kSharpness); ++i)
      EXPECT_EQ(Apply({static_cast<ImageOperation>(i), 1}, pixel.view()).bytes.size(), pixel.bytes.size()) << i;
    EXPECT_EQ(Resize(pixel.view(), 5, 7).bytes, Pixels::Bytes(static_cast<size_t>(35 * channels), 100));
  }
}

TEST(Augment, DrawsAndAppliesAsComposer) {
  int cases = 0;
  for (const Json& row : Golden()["augmented"]) {
    if (row["name"] != "randaugment") continue;
    Pixels image = PixelsOf(row, "image", row["channels"]);
    const AugmentationSet set = ParseAugmentationSet(row["set"].get<std::string>()).value();
    const std::vector<double> draws = row["uniforms"];
    size_t drawn = 0;
    const auto uniform = [&](double low, double high) {
      const double value = draws.at(drawn++);
      EXPECT_TRUE(std::min(low, high) <= value && value <= std::max(low, high))
          << value << " of " << low << " to " << high;
      return value;
    };
    for (int i = 0; i < row["depth"]; ++i) {
      const ImageOperation operation = DrawOperation(set, uniform);
      image = Apply(DrawStrength(operation, set, row["severity"], image.height, image.width, uniform), image.view());
    }
    EXPECT_EQ(drawn, draws.size());
    EXPECT_EQ(Distance(image, PixelsOf(row, "result", row["channels"])), 0) << row["set"] << row["severity"];
    ++cases;
  }
  EXPECT_EQ(cases, 10);
}

}  // namespace
}  // namespace composer

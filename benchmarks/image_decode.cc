// image_decode FOLDER [SECONDS]: images a second of CPU time on one core, out of the JPEG files of a folder, in memory:
// by libjpeg-turbo itself into one buffer that is used again, by DecodeImage, and with what a training sample takes: a
// random crop scaled to 224 x 224, a flip, and float32. Rounds alternate; prints the median of each.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <cstdio>
// jpeglib.h needs it before.
#include <jpeglib.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/image/decode.h"
#include "trainer/data/images/pixel_transforms.h"

namespace {

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Its own decoder for each file, as a loader has it.
void DecodePlainly(const std::string& file, std::vector<uint8_t>& pixels) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const size_t stride = size_t{info.output_width} * 3;
  pixels.resize(stride * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels.data() + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
}

// Images a second over all files.
double Rate(const std::vector<std::string>& files, const std::function<void(const std::string&)>& fn) {
  const double begin = CpuSeconds();
  for (const std::string& file : files) fn(file);
  return static_cast<double>(files.size()) / (CpuSeconds() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: image_decode FOLDER [SECONDS]\n";
    return 64;
  }
  at::set_num_threads(1);
  std::vector<std::string> files;
  const std::vector<std::string> names = composer::ListDir(argv[1]).value();
  for (const std::string& name : names) files.push_back(composer::ReadFile(composer::JoinPath(argv[1], name)).value());
  const double seconds = argc > 2 ? std::stod(argv[2]) : 10;
  std::vector<uint8_t> buffer;
  const std::vector<composer::SampleTransformPtr> transforms = {composer::MakeDecodeImage(),
                                                                composer::MakeRandomResizedCrop({.size = 224}),
                                                                composer::MakeRandomFlip(), composer::MakeToFloat()};
  uint64_t seed = 0;
  const std::vector<std::pair<const char*, std::function<void(const std::string&)>>> ways = {
      {"libjpeg-turbo", [&](const std::string& file) { DecodePlainly(file, buffer); }},
      {"DecodeImage", [&](const std::string& file) { composer::DecodeImage(file, 3).value(); }},
      {"decode, crop, flip, float", [&](const std::string& file) {
         composer::Sample sample;
         sample.texts["image"] = file;
         composer::SampleRandom random(++seed);
         for (const auto& transform : transforms) transform->Apply(sample, random);
       }}};
  std::vector<std::vector<double>> rates(ways.size());
  for (const double begin = CpuSeconds(); CpuSeconds() - begin < seconds || rates[0].size() < 5;) {
    for (size_t i = 0; i < ways.size(); ++i) rates[i].push_back(Rate(files, ways[i].second));
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    std::sort(rates[i].begin(), rates[i].end());
    std::cout << ways[i].first << ": " << rates[i][rates[i].size() / 2] << " images/s of CPU (" << rates[i].front()
              << " to " << rates[i].back() << ", " << rates[i].size() << " rounds)\n";
  }
  return 0;
}

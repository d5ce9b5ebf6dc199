// Image sources, transforms of pixels, and transforms that algorithms add.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "data/image/decode.h"
#include "data/image/resample.h"
#include "storage/memory_store.h"
#include "tests/support/moody_store.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/images/image_sources.h"
#include "trainer/data/images/image_tensor.h"
#include "trainer/data/images/pixel_transforms.h"
#include "trainer/data/images/tone_transforms.h"
#include "trainer/data/images/warp_transforms.h"
#include "trainer/data/prepared_dataset.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A PNG or JPEG file of tests/golden/images.json, 27 x 33.
std::string GoldenFile(const std::string& name) {
  static const auto& golden = *new nlohmann::json(nlohmann::json::parse(ReadFile("tests/golden/images.json").value()));
  std::string bytes;
  for (const auto& row : golden["files"]) {
    if (row["name"] == name) absl::Base64Unescape(row["file"].get<std::string>(), &bytes);
  }
  return bytes;
}

void PutFile(const std::string& path, const std::string& bytes) {
  ASSERT_TRUE(MakeDirs(DirName(path)).ok());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string ImageError(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

// Applies a transform to an image as the sample with this seed.
at::Tensor After(const SampleTransformPtr& transform, const at::Tensor& image, uint64_t seed = 1) {
  Sample sample;
  sample.tensors["inputs"] = image;
  SampleRandom random(seed);
  transform->Apply(sample, random);
  return sample.tensors["inputs"];
}

at::Tensor Photograph() { return TensorOfImage(DecodeImage(GoldenFile("png_rgb"), 3).value()); }

TEST(ImageFolder, ListsAsTorchvisionAndDecodes) {
  const TempDir dir;
  const std::string png = GoldenFile("png_rgb"), jpeg = GoldenFile("jpeg_420");
  PutFile(dir.path() + "/dog/b.PNG", png);
  PutFile(dir.path() + "/dog/a/z.jpeg", jpeg);
  PutFile(dir.path() + "/dog/notes.txt", "no image");
  PutFile(dir.path() + "/Cat/x.jpg", jpeg);
  const auto source = OpenImageFolder({dir.path(), ""});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 3);
  std::vector<std::string> paths;
  for (int64_t i = 0; i < 3; ++i) {
    Sample sample = (*source)->Get(i);
    paths.push_back(sample.texts["path"].substr(dir.path().size()));
    EXPECT_EQ(sample.tensors["targets"].item<int64_t>(), i == 0 ? 0 : 1);
  }
  EXPECT_THAT(paths, ElementsAre("/Cat/x.jpg", "/dog/b.PNG", "/dog/a/z.jpeg"));
  const auto data = PrepareSamples(*source, {.transforms = {MakeDecodeImage(), MakeToFloat()}});
  const Batch batch = data->Load({1, 2});
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{2, 3, 27, 33}));
  EXPECT_TRUE(batch.texts.empty());
  EXPECT_TRUE(batch.inputs[0].equal(Photograph().to(at::kFloat) / 255));

  PutFile(dir.path() + "/classes.txt", "wolf\ndog\nCat\n");
  const auto chosen = OpenImageFolder({dir.path(), dir.path() + "/classes.txt"});
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ((*chosen)->Get(0).tensors["targets"].item<int64_t>(), 2);
}

TEST(ImageFolder, NamesWhatIsWrong) {
  const TempDir dir;
  EXPECT_THAT(OpenImageFolder({dir.path(), ""}).status().message(), HasSubstr("needs one for each class"));
  PutFile(dir.path() + "/dog/a.png", GoldenFile("png_rgb").substr(0, 500));
  const auto source = OpenImageFolder({dir.path(), ""}).value();
  const auto data = PrepareSamples(source, {.transforms = {MakeDecodeImage()}});
  EXPECT_THAT(ImageError([&] { data->Load({0}); }), HasSubstr("dog/a.png: a PNG file that is cut off"));
  PutFile(dir.path() + "/classes.txt", "dig\n");
  EXPECT_THAT(OpenImageFolder({dir.path(), dir.path() + "/classes.txt"}).status().message(),
              AllOf(HasSubstr("has no class `dog`"), HasSubstr("dig")));
  PutFile(dir.path() + "/empty/a.gif", "GIF");
  EXPECT_THAT(OpenImageFolder({dir.path(), ""}).status().message(), HasSubstr("empty: there is no image in it"));
}

std::string TarMember(const std::string& name, const std::string& bytes) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, absl::StrFormat("%011o", bytes.size()));
  header.replace(257, 5, "ustar");
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 6, absl::StrFormat("%06o", sum));
  header += bytes;
  header.resize((header.size() + 511) / 512 * 512, '\0');
  return header;
}

TEST(WebDataset, GroupsFilesOfOneName) {
  const TempDir dir;
  PutFile(dir.path() + "/w-08.tar", TarMember("a/1.jpg", GoldenFile("jpeg_420")) + TarMember("a/1.cls", "7\n") +
                                        TarMember("a/2.seg.png", "s") + TarMember("a/2.cls", "3"));
  PutFile(dir.path() + "/w-09.tar", TarMember("a/2.cls", "4") + TarMember("README", "-") + TarMember(".x.cls", "1"));
  const auto source = OpenWebDataset({{dir.path() + "/w-{08..09}.tar"}, "cls", {}});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->size(), 3);
  Sample first = (*source)->Get(0), second = (*source)->Get(1);
  EXPECT_EQ(first.texts["jpg"], GoldenFile("jpeg_420"));
  EXPECT_EQ(first.tensors["targets"].item<int64_t>(), 7);
  EXPECT_EQ(second.texts["seg.png"], "s");
  EXPECT_EQ((*source)->Get(2).tensors["targets"].item<int64_t>(), 4);
  EXPECT_THAT(first.texts["path"], HasSubstr("w-08.tar: a/1"));

  PutFile(dir.path() + "/twice.tar", TarMember("1.txt", "x") + TarMember("1.txt", "y"));
  EXPECT_THAT(OpenWebDataset({{dir.path() + "/twice.tar"}, "cls", {}}).status().message(), HasSubstr("two files .txt"));
  PutFile(dir.path() + "/bad.tar", TarMember("1.cls", "x"));
  EXPECT_THAT(ImageError([&] { OpenWebDataset({{dir.path() + "/bad.tar"}, "cls", {}}).value()->Get(0); }),
              HasSubstr("bad.tar: 1.cls holds `x`, which is not a whole number"));
}

class RemoteTars : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 4; ++i) {
      std::string tar;
      for (int k = 0; k < 5; ++k)
        tar += TarMember(absl::StrCat(i, k, ".txt"), std::string(700, static_cast<char>('a' + i))) +
               TarMember(absl::StrCat(i, k, ".cls"), absl::StrCat(10 * i + k));
      ASSERT_TRUE(memory_->Put(absl::StrCat("t-", i, ".tar"), {tar}).ok());
      tar_bytes_ = static_cast<int64_t>(tar.size());
    }
  }
  WebDatasetOptions Options(const std::string& path = "moody://tars/t-{0..3}.tar") {
    WebDatasetOptions options{{path}, "cls", {}};
    options.cache.local = cache_.path();
    options.cache.download_retry = 4;
    return options;
  }
  StoreOpener Opener(int failures = 0, int lies = 0) {
    moody_ = std::make_shared<MoodyStore>(memory_, "moody://tars/", failures, lies);
    return [this](const std::string& place) -> absl::StatusOr<std::shared_ptr<ObjectStore>> {
      EXPECT_EQ(place, "moody://tars");
      return moody_;
    };
  }
  static int64_t TargetOf(const SampleSource& source, int64_t index) {
    return source.Get(index).tensors.at("targets").item<int64_t>();
  }

  TempDir cache_;
  std::shared_ptr<MemoryStore> memory_ = std::make_shared<MemoryStore>();
  std::shared_ptr<MoodyStore> moody_;
  int64_t tar_bytes_ = 0;
};

TEST_F(RemoteTars, AreFetchedOnceAndKnownAtLaterStarts) {
  for (int start = 0; start < 2; ++start) {
    const auto source = OpenWebDataset(Options(), Opener());
    ASSERT_TRUE(source.ok()) << source.status();
    ASSERT_EQ((*source)->size(), 20);
    EXPECT_EQ(moody_->reads, start == 0 ? 4 : 0);
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(TargetOf(**source, i), i / 5 * 10 + i % 5);
    EXPECT_EQ(moody_->reads, start == 0 ? 4 : 0) << "all are in the cache";
    EXPECT_THAT((*source)->Get(6).texts.at("path"), HasSubstr("moody://tars/t-1.tar: 11"));
    EXPECT_EQ((*source)->OwnOrder({.size = 20, .seed = 1, .shuffle = true}), nullptr);
  }
  for (const char* path : {"moody://tars/t-[01].tar", "moody://tars"})
    EXPECT_EQ((*OpenWebDataset(Options(path), Opener()))->size(), std::string(path) == "moody://tars" ? 20 : 10);
}

TEST_F(RemoteTars, AreFetchedAgainWhenTheStoreFailsOrLies) {
  const auto source = OpenWebDataset(Options("moody://tars/t-2.tar"), Opener(1, 1));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(moody_->reads, 3);
  EXPECT_EQ(TargetOf(**source, 4), 24);
  WebDatasetOptions impatient = Options("moody://tars/t-3.tar");
  impatient.cache.download_retry = 1;
  const absl::Status failed = OpenWebDataset(impatient, Opener(9)).status();
  EXPECT_THAT(failed.message(), HasSubstr("moody://tars/t-3.tar: after 2 tries: the store is busy"));
}

TEST_F(RemoteTars, ABoundedCacheIsReadArchiveByArchive) {
  WebDatasetOptions options = Options();
  options.cache.cache_limit = tar_bytes_ * 2;
  const auto source = OpenWebDataset(options, Opener());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(moody_->reads, 4);
  const auto order = (*source)->OwnOrder({.size = 20, .seed = 1, .shuffle = true});
  ASSERT_NE(order, nullptr);
  std::vector<int64_t> ids(20);
  order->Read(0, 0, absl::MakeSpan(ids));
  std::set<int64_t> targets;
  for (const int64_t id : ids) targets.insert(TargetOf(**source, id));
  EXPECT_EQ(targets.size(), 20U);
  EXPECT_LE(moody_->reads, 4 + 8) << "each about once an epoch";
  int64_t kept = 0;
  const std::string folder = JoinPath(cache_.path(), "composer-shards");
  const std::vector<std::string> names = ListDir(folder).value();
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".shard")) kept += static_cast<int64_t>(std::filesystem::file_size(folder + "/" + name));
  }
  EXPECT_LE(kept, tar_bytes_ * 2);
}

TEST_F(RemoteTars, AnArchiveThatChangedIsNotTakenForTheOldOne) {
  ASSERT_TRUE(OpenWebDataset(Options("moody://tars/t-0.tar"), Opener()).ok());
  std::string other(static_cast<size_t>(tar_bytes_), '\0');
  ASSERT_TRUE(memory_->Put("t-0.tar", {other}).ok());
  ASSERT_TRUE(RemoveTree(JoinPath(cache_.path(), "composer-shards")).ok());
  WebDatasetOptions options = Options("moody://tars/t-0.tar");
  options.cache.download_retry = 0;
  const auto source = OpenWebDataset(options, Opener());
  ASSERT_TRUE(source.ok()) << source.status();
  try {
    (*source)->Get(0);
    ADD_FAILURE();
  } catch (const StatusError& error) {
    EXPECT_THAT(std::string(error.status().message()), HasSubstr("another than at its first use; then delete "));
  }
}

TEST_F(RemoteTars, NeedAFolderForThem) {
  WebDatasetOptions options = Options();
  options.cache.local.clear();
  EXPECT_THAT(OpenWebDataset(options, Opener()).status().message(),
              HasSubstr("local: required for moody://tars/t-0.tar"));
  EXPECT_THAT(OpenWebDataset(Options("moody://tars/x-*.tar"), Opener()).status().message(),
              HasSubstr("moody://tars/x-*.tar: there is no such file"));
}

TEST(WebDataset, ExpandsBraces) {
  EXPECT_THAT(ExpandBraces("a{8..11}b").value(), ElementsAre("a8b", "a9b", "a10b", "a11b"));
  EXPECT_THAT(ExpandBraces("{x,y}{00..01}").value(), ElementsAre("x00", "x01", "y00", "y01"));
  EXPECT_THAT(ExpandBraces("plain{").value(), ElementsAre("plain{"));
  EXPECT_FALSE(ExpandBraces("{3..1}").ok());
  EXPECT_FALSE(ExpandBraces("{0..9999999}").ok());
  EXPECT_FALSE(ExpandBraces("{0..9999}{0..9999}").ok());
}

TEST(BinaryPictures, ReadMnistAndCifar) {
  const TempDir dir;
  const std::string sizes("\0\0\0\2\0\0\0\1\0\0\0\3", 12);
  PutFile(dir.path() + "/train-images-idx3-ubyte", std::string("\0\0\x08\3", 4) + sizes + "abcdef");
  PutFile(dir.path() + "/train-labels-idx1-ubyte", std::string("\0\0\x08\1\0\0\0\2\5\7", 10));
  const auto mnist = OpenMnist(dir.path(), DataSplit::kTrain);
  ASSERT_TRUE(mnist.ok()) << mnist.status();
  Sample sample = (*mnist)->Get(1);
  EXPECT_TRUE(sample.tensors["inputs"].equal(torch::tensor({'d', 'e', 'f'}, at::kByte).view({1, 1, 3})));
  EXPECT_EQ(sample.tensors["targets"].item<int64_t>(), 7);

  std::string record(1, '\x09');
  for (int i = 0; i < 3072; ++i) record += static_cast<char>(i / 1024);
  PutFile(dir.path() + "/test_batch.bin", record);
  const auto cifar = OpenCifar10(dir.path(), DataSplit::kEval);
  ASSERT_TRUE(cifar.ok()) << cifar.status();
  sample = (*cifar)->Get(0);
  EXPECT_EQ(sample.tensors["targets"].item<int64_t>(), 9);
  EXPECT_EQ(sample.tensors["inputs"].select(0, 2).min().item<int64_t>(), 2);
  record[0] = '\x0a';
  PutFile(dir.path() + "/test_batch.bin", record);
  EXPECT_THAT(OpenCifar10(dir.path(), DataSplit::kEval).status().message(), HasSubstr("class 10; CIFAR-10 has 0 to 9"));
}

TEST(PixelTransforms, KeepChannelsFirstAndWorkOnEitherLayout) {
  const at::Tensor image = Photograph();  // channels innermost
  const at::Tensor resized = After(MakeResizeShorterSide(9), image);
  EXPECT_EQ(resized.sizes(), (std::vector<int64_t>{3, 9, 11}));
  EXPECT_TRUE(resized.equal(After(MakeResize(9, 11), image.contiguous())));
  EXPECT_TRUE(After(MakeCenterCrop(20), image).equal(image.slice(1, 4, 24).slice(2, 6, 26)));  // 3.5 and 6.5: to even
  EXPECT_TRUE(After(MakeToFloat(), image).equal(image.to(at::kFloat) / 255));
  EXPECT_EQ(After(MakeGrayscale(), image).size(0), 1);
  const at::Tensor grey = After(MakeGrayscale(3), image);
  EXPECT_TRUE(grey[0].equal(grey[2]));
}

TEST(PixelTransforms, DrawByTheSampleOnly) {
  const at::Tensor image = Photograph();
  const std::vector<SampleTransformPtr> random = {
      MakeRandomResizedCrop({.size = 12}),
      MakeColorJitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1}), MakeGrayscale(3, 0.5)};
  for (const SampleTransformPtr& transform : random) {
    EXPECT_TRUE(After(transform, image, 7).equal(After(transform, image, 7)));
    bool differs = false;
    for (uint64_t seed = 0; seed < 20; ++seed)
      differs = differs || !After(transform, image, seed).equal(After(transform, image, 7));
    EXPECT_TRUE(differs);
  }
  // An image that no allowed box fits: the whole height of its middle.
  const at::Tensor wide = torch::arange(300, at::kByte).view({1, 1, 300}).expand({3, 2, 300});
  EXPECT_EQ(After(MakeRandomResizedCrop({.size = 5, .least_scale = 1}), wide).sizes(), (std::vector<int64_t>{3, 5, 5}));
}

TEST(WarpTransforms, DrawByTheSampleOnlyAndKeepTheSize) {
  const at::Tensor image = Photograph();
  const std::vector<SampleTransformPtr> random = {
      MakeRandomRotation({-40, 40}),
      MakeRandomAffine(
          {.degrees = {-9, 9}, .translate_x = 0.2, .translate_y = 0.1, .scale = {0.7, 1.4}, .shear_x = {-10, 10}}),
      MakeRandomPerspective(0.5, 0.7),
      MakeGaussianBlur(5),
      MakeRandomVerticalFlip(),
      MakeRandomTone("random_invert", {ImageOperation::kSolarize, 0}),
      MakeRandomErasing({})};
  for (const SampleTransformPtr& transform : random) {
    EXPECT_EQ(After(transform, image).sizes(), image.sizes());
    bool differs = false;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      EXPECT_TRUE(After(transform, image, seed).equal(After(transform, image, seed)));
      differs = differs || !After(transform, image, seed).equal(After(transform, image, 20));
    }
    EXPECT_TRUE(differs);
  }
}

TEST(WarpTransforms, DoWhatTheirNamesSay) {
  const at::Tensor image = Photograph();
  EXPECT_TRUE(After(MakeRandomRotation({0, 0}), image).equal(image));
  EXPECT_TRUE(After(MakeRandomAffine({}), image).equal(image));
  EXPECT_TRUE(After(MakeRandomVerticalFlip(1), image).equal(image.flip({1})));
  EXPECT_TRUE(After(MakeRandomTone("random_invert", {ImageOperation::kSolarize, 0}, 1), image).equal(255 - image));
  const at::Tensor framed = After(MakePad(2, 9), image);
  EXPECT_EQ(framed.size(2), image.size(2) + 4);
  EXPECT_EQ(framed[0][1][5].item<int>(), 9);
  // Moved by whole pixels.
  const at::Tensor moved = After(MakeRandomAffine({.translate_x = 1, .translate_y = 0}), image, 3);
  EXPECT_FALSE(moved.equal(image));
  // A box of the right area, of floats too.
  const at::Tensor erased =
      After(MakeRandomErasing({.probability = 1, .scale = {0.25, 0.25}, .ratio = {1, 1}, .value = -1}),
            torch::ones({3, 20, 20}));
  EXPECT_EQ(erased.eq(-1).sum().item<int64_t>(), 3 * 100);
  EXPECT_TRUE(After(MakeRandomErasing({.probability = 0}), image).equal(image));
}

TEST(WarpTransforms, SayWhatTheyNeed) {
  EXPECT_THAT(ImageError([] { MakeRandomRotation({3, 1}); }),
              HasSubstr("random_rotation: degrees: must be two rising"));
  EXPECT_THAT(ImageError([] { MakeRandomAffine({.scale = {0, 1}}); }), HasSubstr("random_affine: scale"));
  EXPECT_THAT(ImageError([] { MakeRandomAffine({.translate_x = 2}); }), HasSubstr("random_affine: translate"));
  EXPECT_THAT(ImageError([] { MakeGaussianBlur(4); }), HasSubstr("gaussian_blur: kernel_size: must be odd, got 4"));
  EXPECT_THAT(ImageError([] { After(MakeGaussianBlur(9), torch::zeros({3, 4, 4}, at::kByte)); }),
              HasSubstr("kernel_size 9 is too large for the image, 4 x 4"));
  EXPECT_THAT(ImageError([] { After(MakeRandomPerspective(), torch::zeros({3, 2, 4}, at::kByte)); }),
              HasSubstr("the image is 2 x 4"));
  EXPECT_THAT(ImageError([] { MakeRandomErasing({.probability = 2}); }), HasSubstr("random_erasing: probability"));
}

TEST(PixelTransforms, SayWhatTheyNeed) {
  EXPECT_THAT(ImageError([] { After(MakeResize(2, 2), torch::zeros({3, 4, 4})); }),
              AllOf(HasSubstr("resize: it takes images of bytes"), HasSubstr("Float")));
  EXPECT_THAT(ImageError([] { After(MakeCenterCrop(5), torch::zeros({3, 4, 9}, at::kByte)); }),
              HasSubstr("size 5 is larger than the image, 4 x 9"));
  Sample none;
  SampleRandom random(1);
  EXPECT_THAT(ImageError([&] { MakeToFloat()->Apply(none, random); }), HasSubstr("put decode_image before it"));
  EXPECT_THAT(ImageError([&] { MakeDecodeImage()->Apply(none, random); }), HasSubstr("no text `image`"));
  EXPECT_THAT(ImageError([] { MakeRandomResizedCrop({.least_scale = 2}); }), HasSubstr("scale"));
  EXPECT_THAT(ImageError([] { MakeColorJitter({.hue = 0.6}); }), HasSubstr("hue"));
}

// One black image.
class Black final : public SampleSource {
 public:
  int64_t size() const override { return 3; }
  Sample Get(int64_t /*index*/) const override {
    Sample sample;
    sample.tensors["inputs"] = torch::zeros({1, 2, 2}, at::kByte);
    return sample;
  }
};

// Notes the type of the image, and a draw.
class Notes final : public SampleTransform {
 public:
  explicit Notes(std::string key) : key_(std::move(key)) {}
  void Apply(Sample& sample, SampleRandom& random) const override {
    sample.texts[key_] = c10::toString(sample.tensors["inputs"].scalar_type());
    sample.tensors[key_ + " drawn"] = torch::tensor(random.Below(int64_t{1} << 40));
  }

 private:
  const std::string key_;
};

TEST(PreparedDataset, TakesTransformsOfImagesWhileTheyAreBytes) {
  const auto note = [](const char* key) { return std::make_shared<const Notes>(key); };
  const auto data = PrepareSamples(std::make_shared<const Black>(),
                                   {.transforms = {note("before"), MakeToFloat(), note("after")}, .seed = 5});
  const Batch plain = data->LoadIn(2, {1});
  const auto* open = dynamic_cast<const PreparedDataset*>(data.get());
  ASSERT_NE(open, nullptr);
  open->AddImageTransform("one", note("one"));
  open->AddImageTransform("two", note("two"));
  open->AddImageTransform("one", note("again"));
  Batch batch = data->LoadIn(2, {1});
  EXPECT_THAT(batch.texts["one"], ElementsAre("Byte"));
  EXPECT_THAT(batch.texts["two"], ElementsAre("Byte"));
  EXPECT_THAT(batch.texts["after"], ElementsAre("Float"));
  EXPECT_FALSE(batch.texts.contains("again"));
  for (const char* const key : {"before drawn", "after drawn"})
    EXPECT_TRUE(batch.extra.at(key).equal(plain.extra.at(key))) << key;
  EXPECT_FALSE(batch.extra.at("one drawn").equal(batch.extra.at("two drawn")));
}

}  // namespace
}  // namespace composer

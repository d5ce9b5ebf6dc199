// SPDX-License-Identifier: Apache-2.0
#include "data/codec/compression.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/late_functions.h"
#include "base/status_macros.h"

namespace composer {
namespace {

struct CodecFacts {
  const char* name;  // also the extension
  Codec codec;
  int lowest, highest, usual;  // levels
};
constexpr std::array<CodecFacts, 5> kCodecs = {{{"br", Codec::kBrotli, 0, 11, 11},
                                                {"bz2", Codec::kBzip2, 1, 9, 9},
                                                {"gz", Codec::kGzip, 0, 9, 9},
                                                {"snappy", Codec::kSnappy, 0, 0, 0},
                                                {"zstd", Codec::kZstd, 1, 22, 3}}};

const CodecFacts& FactsOf(Codec codec) {
  return *std::find_if(kCodecs.begin(), kCodecs.end(), [&](const CodecFacts& facts) { return facts.codec == codec; });
}

absl::Status DamagedStream(Codec codec) {
  return absl::DataLossError(absl::StrCat("the ", FactsOf(codec).name,
                                          " stream is damaged, or does not hold as many bytes as the index says"));
}

// Fills the pointer with a function of a library that stays once it is loaded; kUnimplemented says what to install.
template <typename F>
absl::Status Find(const char* file, const char* package, const char* name, F*& function) {
  LateFunctions library(file, package);
  library.Find(name, function);
  return library.status();
}

// The functions used, as the libraries' headers declare them.
using ZstdDecompress = size_t(void*, size_t, const void*, size_t);
using ZstdCompress = size_t(void*, size_t, const void*, size_t, int);
using ZstdIsError = unsigned(size_t);
using Bzip2Decompress = int(char*, unsigned*, char*, unsigned, int, int);
using Bzip2Compress = int(char*, unsigned*, char*, unsigned, int, int, int);
using BrotliDecompress = int(size_t, const uint8_t*, size_t*, uint8_t*);
using BrotliCompress = int(int, int, int, size_t, const uint8_t*, size_t*, uint8_t*);
using SnappyRun = int(const char*, size_t, char*, size_t*);

const uint8_t* Unsigned(absl::string_view bytes) { return reinterpret_cast<const uint8_t*>(bytes.data()); }
uint8_t* Unsigned(std::string& bytes) { return reinterpret_cast<uint8_t*>(bytes.data()); }

// Inflates all members of a gzip file into `into`; returns whether they fill it exactly.
bool Inflate(absl::string_view compressed, std::string& into) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return false;
  stream.next_in = const_cast<Bytef*>(Unsigned(compressed));
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = Unsigned(into);
  stream.avail_out = static_cast<uInt>(into.size());
  int result = inflate(&stream, Z_FINISH);
  while (result == Z_STREAM_END && stream.avail_in > 0 && inflateReset(&stream) == Z_OK)
    result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return result == Z_STREAM_END && stream.avail_out == 0;
}

absl::StatusOr<size_t> Deflate(absl::string_view bytes, int level, std::string& into) {
  z_stream stream = {};
  if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return absl::InternalError("zlib cannot be used");
  stream.next_in = const_cast<Bytef*>(Unsigned(bytes));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = Unsigned(into);
  stream.avail_out = static_cast<uInt>(into.size());
  const int result = deflate(&stream, Z_FINISH);
  const size_t size = into.size() - stream.avail_out;
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return absl::InternalError("zlib did not finish");
  return size;
}

}  // namespace

absl::StatusOr<Compression> ParseCompression(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  for (const CodecFacts& facts : kCodecs) {
    if (parts[0] != facts.name) continue;
    Compression compression{facts.codec, facts.usual};
    const bool level = parts.size() == 2 && facts.highest > 0 && absl::SimpleAtoi(parts[1], &compression.level) &&
                       compression.level >= facts.lowest && compression.level <= facts.highest;
    if (parts.size() == 1 || level) return compression;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("compression `", text, "` is not known; use br[:0-11], bz2[:1-9], gz[:0-9], snappy or zstd[:1-22]"));
}

std::string CompressionExtension(Codec codec) { return FactsOf(codec).name; }

absl::StatusOr<std::string> Decompress(Codec codec, absl::string_view compressed, int64_t size) {
  if (size < 0 || size > UINT32_MAX || compressed.size() > UINT32_MAX) return DamagedStream(codec);
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t done = bytes.size();
  bool ok = false;
  switch (codec) {
    case Codec::kZstd: {
      ZstdDecompress* decompress;
      RETURN_IF_ERROR(Find("libzstd.so.1", "libzstd1", "ZSTD_decompress", decompress));
      done = decompress(bytes.data(), bytes.size(), compressed.data(), compressed.size());
      ok = true;  // an error is a huge size
      break;
    }
    case Codec::kGzip:
      ok = Inflate(compressed, bytes);
      break;
    case Codec::kBzip2: {
      Bzip2Decompress* decompress;
      RETURN_IF_ERROR(Find("libbz2.so.1.0", "libbz2-1.0", "BZ2_bzBuffToBuffDecompress", decompress));
      auto filled = static_cast<unsigned>(bytes.size());
      ok = decompress(bytes.data(), &filled, const_cast<char*>(compressed.data()),
                      static_cast<unsigned>(compressed.size()), 0, 0) == 0;
      done = filled;
      break;
    }
    case Codec::kBrotli: {
      BrotliDecompress* decompress;
      RETURN_IF_ERROR(Find("libbrotlidec.so.1", "libbrotli1", "BrotliDecoderDecompress", decompress));
      ok = decompress(compressed.size(), Unsigned(compressed), &done, Unsigned(bytes)) == 1;
      break;
    }
    case Codec::kSnappy: {
      SnappyRun* decompress;
      RETURN_IF_ERROR(Find("libsnappy.so.1", "libsnappy1v5", "snappy_uncompress", decompress));
      ok = decompress(compressed.data(), compressed.size(), bytes.data(), &done) == 0;
      break;
    }
  }
  if (!ok || done != bytes.size()) return DamagedStream(codec);
  return bytes;
}

absl::StatusOr<std::string> Compress(const Compression& compression, absl::string_view bytes) {
  if (bytes.size() > UINT32_MAX) return absl::InvalidArgumentError("only shards below 4 GiB are compressed");
  std::string compressed(bytes.size() + bytes.size() / 4 + 4096, '\0');  // more than any codec's bound
  size_t size = compressed.size();
  bool ok = false;
  switch (compression.codec) {
    case Codec::kZstd: {
      ZstdCompress* compress;
      ZstdIsError* is_error;
      RETURN_IF_ERROR(Find("libzstd.so.1", "libzstd1", "ZSTD_compress", compress));
      RETURN_IF_ERROR(Find("libzstd.so.1", "libzstd1", "ZSTD_isError", is_error));
      size = compress(compressed.data(), size, bytes.data(), bytes.size(), compression.level);
      ok = is_error(size) == 0;
      break;
    }
    case Codec::kGzip: {
      ASSIGN_OR_RETURN(size, Deflate(bytes, compression.level, compressed));
      ok = true;
      break;
    }
    case Codec::kBzip2: {
      Bzip2Compress* compress;
      RETURN_IF_ERROR(Find("libbz2.so.1.0", "libbz2-1.0", "BZ2_bzBuffToBuffCompress", compress));
      auto filled = static_cast<unsigned>(size);
      ok = compress(compressed.data(), &filled, const_cast<char*>(bytes.data()), static_cast<unsigned>(bytes.size()),
                    compression.level, 0, 0) == 0;
      size = filled;
      break;
    }
    case Codec::kBrotli: {
      constexpr int kWindow = 22, kGeneric = 0;
      BrotliCompress* compress;
      RETURN_IF_ERROR(Find("libbrotlienc.so.1", "libbrotli1", "BrotliEncoderCompress", compress));
      ok = compress(compression.level, kWindow, kGeneric, bytes.size(), Unsigned(bytes), &size, Unsigned(compressed)) ==
           1;
      break;
    }
    case Codec::kSnappy: {
      SnappyRun* compress;
      RETURN_IF_ERROR(Find("libsnappy.so.1", "libsnappy1v5", "snappy_compress", compress));
      ok = compress(bytes.data(), bytes.size(), compressed.data(), &size) == 0;
      break;
    }
  }
  if (!ok) return absl::InternalError(absl::StrCat(FactsOf(compression.codec).name, " cannot compress these bytes"));
  compressed.resize(size);
  return compressed;
}

}  // namespace composer

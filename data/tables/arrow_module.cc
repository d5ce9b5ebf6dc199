// SPDX-License-Identifier: Apache-2.0
#include "data/tables/arrow_module.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "data/tables/arrow_values.h"

namespace composer {
namespace {

// Runs what may throw or fail, and returns the reason.
std::string Guarded(const std::function<arrow::Status()>& call) {
  try {
    const arrow::Status status = call();
    return status.ok() ? "" : status.message();
  } catch (const std::exception& error) {
    return error.what();
  }
}

arrow::Status Bad(std::string why) { return arrow::Status::Invalid(std::move(why)); }

// Columns in pieces: an array holds at most 2^31 bytes of text.
class Rows final : public ArrowRows {
 public:
  explicit Rows(std::vector<std::shared_ptr<arrow::ChunkedArray>> columns) : columns_(std::move(columns)) {
    for (const auto& column : columns_) {
      std::vector<int64_t>& ends = ends_.emplace_back();
      for (const auto& chunk : column->chunks()) ends.push_back((ends.empty() ? 0 : ends.back()) + chunk->length());
    }
  }

  std::string Value(int64_t row, size_t column, ArrowValue& value) const override {
    const std::vector<int64_t>& ends = ends_[column];
    const auto chunk = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
    if (row < 0 || chunk == ends.size()) return "has no such row";
    const int64_t begin = chunk == 0 ? 0 : ends[chunk - 1];
    std::string error;
    const std::string thrown = Guarded([&] {
      error = ReadArrowValue(*columns_[column]->chunk(static_cast<int>(chunk)), row - begin, value);
      return arrow::Status::OK();
    });
    return thrown.empty() ? error : thrown;
  }

 private:
  const std::vector<std::shared_ptr<arrow::ChunkedArray>> columns_;
  std::vector<std::vector<int64_t>> ends_;  // of each column's pieces
};

// What both kinds of files have.
class OpenedFile : public ArrowFile {
 public:
  const std::vector<ArrowColumn>& columns() const final { return columns_; }
  const std::vector<ArrowGroup>& groups() const final { return groups_; }
  std::shared_ptr<const ArrowRows> Read(size_t group, std::string& error) final {
    std::shared_ptr<const ArrowRows> rows;
    error = Guarded([&]() -> arrow::Status {
      ARROW_ASSIGN_OR_RAISE(rows, ReadGroup(static_cast<int>(group)));
      return arrow::Status::OK();
    });
    return error.empty() ? rows : nullptr;
  }
  virtual arrow::Status Open(const ArrowRequest& request) = 0;

 protected:
  virtual arrow::Result<std::shared_ptr<const ArrowRows>> ReadGroup(int group) = 0;

  // Chooses the columns of a schema, as numbers.
  arrow::Status Choose(const arrow::Schema& schema, const ArrowRequest& request) {
    for (int i = 0; request.columns.empty() && i < schema.num_fields(); ++i) chosen_.push_back(i);
    for (const std::string& name : request.columns) {
      const int index = schema.GetFieldIndex(name);  // -1 too for a name that is there twice
      if (index < 0 && request.if_present) continue;
      if (index < 0) return Bad("it has no column `" + name + "`; it has " + Names(schema));
      chosen_.push_back(index);
    }
    if (chosen_.empty())
      return Bad(request.if_present ? "it has none of the columns; it has " + Names(schema) : "it has no columns");
    for (const int index : chosen_) {
      const arrow::Field& field = *schema.field(index);
      columns_.push_back(ArrowColumnOf(field));
      if (columns_.back().kind == ArrowKind::kNull)
        return Bad("its column `" + field.name() + "` is of the type " + field.type()->ToString() +
                   ", which is not read; name the others in `columns`");
    }
    return arrow::Status::OK();
  }
  template <typename Table>
  arrow::Result<std::shared_ptr<const ArrowRows>> Check(const Table& table, int group,
                                                        std::vector<std::shared_ptr<arrow::ChunkedArray>> columns) {
    ARROW_RETURN_NOT_OK(table.ValidateFull());
    if (table.num_rows() != groups_[static_cast<size_t>(group)].rows) return Bad("a group has another number of rows");
    return std::make_shared<const Rows>(std::move(columns));
  }

  std::vector<int> chosen_;
  std::vector<ArrowColumn> columns_;
  std::vector<ArrowGroup> groups_;

 private:
  static std::string Names(const arrow::Schema& schema) {
    std::string names;
    for (const std::string& name : schema.field_names()) names += (names.empty() ? "" : ", ") + name;
    return names;
  }
};

std::shared_ptr<arrow::io::BufferReader> ReaderOf(std::string_view bytes) {
  return std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(bytes));
}

class ParquetFile final : public OpenedFile {
 public:
  arrow::Status Open(const ArrowRequest& request) override {
    bytes_ = request.bytes;
    ARROW_ASSIGN_OR_RAISE(const std::unique_ptr<parquet::arrow::FileReader> reader, Reader());
    metadata_ = reader->parquet_reader()->metadata();
    std::shared_ptr<arrow::Schema> schema;
    ARROW_RETURN_NOT_OK(reader->GetSchema(&schema));
    ARROW_RETURN_NOT_OK(Choose(*schema, request));
    for (const int column : chosen_) AddLeaves(reader->manifest().schema_fields[static_cast<size_t>(column)]);
    for (int i = 0; i < metadata_->num_row_groups(); ++i) {
      const auto group = metadata_->RowGroup(i);
      ArrowGroup& known = groups_.emplace_back(ArrowGroup{group->num_rows(), 1});
      for (const int leaf : leaves_)
        known.bytes += std::max<int64_t>(0, group->ColumnChunk(leaf)->total_uncompressed_size());
      if (known.rows < 0) return Bad("a row group has a negative number of rows");
    }
    return arrow::Status::OK();
  }

 protected:
  // With a reader of its own: several threads may read at once.
  arrow::Result<std::shared_ptr<const ArrowRows>> ReadGroup(int group) override {
    ARROW_ASSIGN_OR_RAISE(const std::unique_ptr<parquet::arrow::FileReader> reader, Reader());
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Table> table, reader->ReadRowGroup(group, leaves_));
    std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
    for (const ArrowColumn& column : columns_) {
      columns.push_back(table->GetColumnByName(column.name));
      if (columns.back() == nullptr) return Bad("column `" + column.name + "` is not in a row group");
    }
    return Check(*table, group, std::move(columns));
  }

 private:
  arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> Reader() const {
    parquet::ArrowReaderProperties properties;
    properties.set_use_threads(false);
    properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(ReaderOf(bytes_), parquet::default_reader_properties(), metadata_));
    return builder.properties(properties)->Build();
  }
  void AddLeaves(const parquet::arrow::SchemaField& field) {
    if (field.column_index >= 0) leaves_.push_back(field.column_index);
    for (const parquet::arrow::SchemaField& child : field.children) AddLeaves(child);
  }

  std::string_view bytes_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::vector<int> leaves_;
};

// The IPC file format has a list of its batches; a stream is read from its beginning.
class IpcFile final : public OpenedFile {
 public:
  arrow::Status Open(const ArrowRequest& request) override {
    const std::string_view bytes = request.bytes;
    options_.use_threads = false;
    options_.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
    const bool is_file = bytes.substr(0, 6) == "ARROW1";
    if (is_file) {
      ARROW_ASSIGN_OR_RAISE(file_, arrow::ipc::RecordBatchFileReader::Open(ReaderOf(bytes), options_));
      ARROW_RETURN_NOT_OK(Choose(*file_->schema(), request));
      for (int i = 0; i < file_->num_record_batches(); ++i) {
        ARROW_ASSIGN_OR_RAISE(const auto batch, file_->ReadRecordBatch(i));
        groups_.push_back({batch->num_rows(), BytesOf(*batch, bytes)});
      }
      return arrow::Status::OK();
    }
    ARROW_ASSIGN_OR_RAISE(const auto stream, arrow::ipc::RecordBatchStreamReader::Open(ReaderOf(bytes), options_));
    ARROW_RETURN_NOT_OK(Choose(*stream->schema(), request));
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      ARROW_RETURN_NOT_OK(stream->ReadNext(&batch));
      if (batch == nullptr) return arrow::Status::OK();
      groups_.push_back({batch->num_rows(), 0});
      batches_.push_back(std::move(batch));
    }
  }

 protected:
  arrow::Result<std::shared_ptr<const ArrowRows>> ReadGroup(int group) override {
    std::shared_ptr<arrow::RecordBatch> batch;
    if (file_ != nullptr) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ARROW_ASSIGN_OR_RAISE(batch, file_->ReadRecordBatch(group));
    } else {
      batch = batches_[static_cast<size_t>(group)];
    }
    std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
    for (const int column : chosen_) columns.push_back(std::make_shared<arrow::ChunkedArray>(batch->column(column)));
    return Check(*batch, group, std::move(columns));
  }

 private:
  // Returns 0 if the batch's memory is the file's: it is not compressed.
  static int64_t BytesOf(const arrow::RecordBatch& batch, std::string_view file) {
    int64_t copied = 0;
    for (const auto& column : batch.column_data()) {
      for (const auto& buffer : column->buffers) {
        if (buffer == nullptr || buffer->size() == 0) continue;
        const auto* const data = reinterpret_cast<const char*>(buffer->data());
        if (std::less<>()(data, file.data()) || !std::less<>()(data, file.data() + file.size()))
          copied += buffer->size();
      }
    }
    return copied;
  }

  arrow::ipc::IpcReadOptions options_ = arrow::ipc::IpcReadOptions::Defaults();
  std::mutex mutex_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;  // of a stream
};

std::unique_ptr<ArrowFile> OpenArrowBytes(const ArrowRequest& request, std::string& error) {
  const std::string_view bytes = request.bytes;
  std::unique_ptr<OpenedFile> file;
  if (bytes.substr(0, 4) == "PAR1" || bytes.substr(0, 4) == "PARE") {
    file = std::make_unique<ParquetFile>();
  } else {
    file = std::make_unique<IpcFile>();
  }
  error = Guarded([&] { return file->Open(request); });
  if (!error.empty()) return nullptr;
  return file;
}

}  // namespace
}  // namespace composer

const char* composer_arrow_version() { return COMPOSER_VERSION; }

composer::OpenArrowFunction* composer_arrow_open() { return composer::OpenArrowBytes; }

#include "weights/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "weights/gguf.h"
#include "weights/json.h"
#include "weights/metadata.h"
#include "weights/quantized.h"
#include "weights/safetensors.h"
#include "weights/storage.h"
#include "weights/vocab_source.h"

namespace isotope::weights {

std::string place_of(const Checkpoint& c, const TensorEntry& t) { return c.files()[size_t(t.file)] + ", tensor " + quote_name(t.name); }

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFirstHead = uint64_t{1} << 20, kMaxHead = uint64_t{256} << 20, kMaxConfig = uint64_t{16} << 20,
                   kMaxIndex = uint64_t{256} << 20;

/// Both containers end up here: entries, an index by name, storage, metadata.
class FileCheckpoint : public Checkpoint {
 public:
  FileCheckpoint(std::string_view container, bool mapped) : container_(container), storage_(mapped) {}

  std::string_view container() const override { return container_; }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const std::vector<std::string>& files() const override { return storage_.paths(); }
  const Metadata& metadata() const override { return metadata_; }
  const VocabSource& vocab() const override { return vocab_; }
  Result<Data> read(const TensorEntry& t) const override { return storage_.read(t); }
  Result<void> check_unchanged(const TensorEntry& t) const override { return storage_.file(t.file).check_unchanged(); }
  const TensorEntry* find(std::string_view name) const override {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : &tensors_[it->second];
  }

  /// Adds one file's tensors; a name that another file already has is an error.
  Result<void> add(base::File file, std::vector<TensorEntry> tensors) {
    const int number = int(storage_.paths().size());
    for (TensorEntry& t : tensors) {
      t.file = number;
      tensors_.push_back(std::move(t));
    }
    return storage_.add(std::move(file));
  }
  Result<void> index() {
    index_.reserve(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const auto [it, fresh] = index_.emplace(tensors_[i].name, i);
      if (!fresh)
        return fail(Code::data_loss, "the tensor is also in " + files()[size_t(tensors_[it->second].file)],
                    place_of(*this, tensors_[i]),
                    "remove the file that does not belong to the model");
    }
    set_vocab_size();
    return {};
  }

  Metadata metadata_;
  VocabSource vocab_;
  std::vector<std::byte> head_;  ///< what metadata_ views

 private:
  // The rows of the output head decide how many logits there are; padded vocabularies have more rows than tokens.
  void set_vocab_size() {
    for (const char* name :
         {"output.weight", "token_embd.weight", "lm_head.weight", "model.embed_tokens.weight", "language_model.lm_head.weight",
          "language_model.model.embed_tokens.weight", "model.language_model.embed_tokens.weight"})
      if (const TensorEntry* t = find(name); t && t->rank == 2) {
        vocab_.vocab_size = t->shape[0];
        return;
      }
  }

  std::string container_;
  Storage storage_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
};

using Opened = Result<std::unique_ptr<Checkpoint>>;

// ---- GGUF ----

struct GgufPart {
  base::File file;
  std::vector<std::byte> head;
  GgufHeader header;
};

/// Reads as much of the head as the header needs: the file's length bounds it, never a number in the file.
Result<GgufPart> read_gguf(const std::string& path) {
  ISO_TRY(base::File file, base::File::open(path));
  std::vector<std::byte> head;
  for (uint64_t want = kFirstHead;; want *= 4) {
    const size_t had = head.size();
    head.resize(size_t(std::min(want, file.size())));
    ISO_CHECK_OK(file.read(had, std::span(head).subspan(had)));
    ISO_TRY(auto header, parse_gguf(head, file.size(), path));
    if (!header && want >= kMaxHead)
      return fail(Code::data_loss, "the header goes on beyond " + std::to_string(kMaxHead >> 20) + " MiB", path,
                  "use a file with a smaller vocabulary or tensor list");
    if (!header) continue;
    // Metadata views these bytes as long as the checkpoint lives: keep no more than the header, and parse it where it stays.
    std::vector<std::byte> exact(head.begin(), head.begin() + ptrdiff_t(std::min<uint64_t>(header->data_start, head.size())));
    ISO_TRY(header, parse_gguf(exact, file.size(), path));
    return GgufPart{std::move(file), std::move(exact), std::move(*header)};
  }
}

Result<int64_t> split_number(const GgufPart& p, const char* key) {
  return p.header.metadata.integer(std::string("split.") + key);
}

/// One part of a set of `count`: its own numbers must say so.
Result<void> check_part(const GgufPart& p, size_t index, size_t count) {
  const char* remedy = "download all parts of one model into one directory, under their original names";
  ISO_TRY(const int64_t no, split_number(p, "no"));
  ISO_TRY(const int64_t of, split_number(p, "count"));
  if (no == int64_t(index) && of == int64_t(count)) return {};
  return fail(Code::data_loss,
              "the file says it is part " + std::to_string(no + 1) + " of " + std::to_string(of) + ", its name says " +
                  std::to_string(index + 1) + " of " + std::to_string(count),
              p.file.path() + ", keys 'split.no' and 'split.count'", remedy);
}

Result<void> check_parts_exist(const std::vector<std::string>& paths) {
  std::vector<std::string> absent;
  std::error_code ec;
  for (const std::string& p : paths)
    if (!fs::exists(p, ec)) absent.push_back(fs::path(p).filename().string());
  if (absent.empty()) return {};
  return fail(Code::not_found,
              std::to_string(absent.size()) + " of " + std::to_string(paths.size()) + " parts are missing: " + listed(absent),
              fs::path(paths[0]).parent_path().string(), "download the missing parts into the same directory");
}

Opened open_gguf(const std::string& path, const levers::Loading& levers) {
  auto c = std::make_unique<FileCheckpoint>("gguf", !levers.disable_mmap);
  ISO_TRY(GgufPart first, read_gguf(path));
  ISO_TRY(const int64_t count, first.header.metadata.integer_or("split.count", 1));
  std::vector<std::string> paths;
  if (count > 1) {
    paths = gguf_split_paths(path);
    if (paths.empty())
      return fail(Code::invalid_argument,
                  "the file is part of a set of " + std::to_string(count) + " files but is not named NAME-00001-of-00005.gguf", path,
                  "give the parts their original names");
    ISO_CHECK_OK(check_parts_exist(paths));
    if (paths[0] != path) {
      ISO_TRY(first, read_gguf(paths[0]));
    }
    ISO_CHECK_OK(check_part(first, 0, paths.size()));
  }
  // The first part's header holds the metadata of all.
  c->head_ = std::move(first.head);
  c->metadata_ = std::move(first.header.metadata);
  ISO_CHECK_OK(c->add(std::move(first.file), std::move(first.header.tensors)));
  for (size_t i = 1; i < paths.size(); ++i) {
    ISO_TRY(GgufPart part, read_gguf(paths[i]));
    ISO_CHECK_OK(check_part(part, i, paths.size()));
    ISO_CHECK_OK(c->add(std::move(part.file), std::move(part.header.tensors)));
  }
  if (!paths.empty() && c->metadata_.has("split.tensors.count")) {
    ISO_TRY(const int64_t total, c->metadata_.integer("split.tensors.count"));
    if (total != int64_t(c->tensors().size()))
      return fail(Code::data_loss,
                  "the parts hold " + std::to_string(c->tensors().size()) + " tensors instead of " + std::to_string(total),
                  paths[0] + ", key 'split.tensors.count'", "download all parts of one model again");
  }
  ISO_TRY(c->vocab_, vocab_from_gguf(c->metadata_));
  ISO_CHECK_OK(c->index());
  return c;
}

// ---- Hugging Face directories ----

Result<std::pair<base::File, SafetensorsHeader>> read_safetensors(const std::string& path) {
  ISO_TRY(base::File file, base::File::open(path));
  std::byte first8[8] = {};
  if (file.size() >= 8) ISO_CHECK_OK(file.read(0, first8));
  ISO_TRY(const uint64_t n, safetensors_header_bytes(first8, file.size(), path));
  std::string json(size_t(n), '\0');
  ISO_CHECK_OK(file.read(8, std::as_writable_bytes(std::span(json))));
  ISO_TRY(SafetensorsHeader h, parse_safetensors(json, file.size(), path));
  return std::pair(std::move(file), std::move(h));
}

std::vector<std::string> files_with(const fs::path& dir, std::string_view extension) {
  std::vector<std::string> out;
  std::error_code ec;
  for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == extension) out.push_back(it->path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// shard -> the tensors its index expects in it; no names without an index.
using Shards = std::map<std::string, std::vector<std::string>>;

Result<Shards> find_shards(const fs::path& dir) {
  Shards shards;
  std::error_code ec;
  const fs::path index = dir / "model.safetensors.index.json";
  if (fs::exists(index, ec)) {
    ISO_TRY(const std::string text, base::read_text_file(index.string(), kMaxIndex));
    ISO_TRY(const auto map, parse_safetensors_index(text, index.string()));
    for (const auto& [tensor, file] : map) shards[file].push_back(tensor);
    std::vector<std::string> absent;
    for (const auto& [file, names] : shards)
      if (!fs::exists(dir / file, ec)) absent.push_back(file);
    if (!absent.empty())
      return fail(
          Code::not_found,
          std::to_string(absent.size()) + " of " + std::to_string(shards.size()) + " shards are missing: " + listed(absent),
          index.string(), "download the missing shards into the same directory");
    return shards;
  }
  if (fs::exists(dir / "model.safetensors", ec)) return Shards{{"model.safetensors", {}}};
  for (const std::string& f : files_with(dir, ".safetensors"))
    if (!f.starts_with("consolidated") && !f.starts_with("adapter_")) shards[f];
  return shards;
}

tl::unexpected<Error> no_weights(const fs::path& dir) {
  for (const char* old : {".bin", ".pth", ".pt"})
    if (const auto found = files_with(dir, old); !found.empty())
      return fail(Code::unsupported, "the folder holds only pickled weights (" + listed(found) + ")", dir.string(),
                  "convert them to safetensors with `save_pretrained(..., safe_serialization=True)`");
  return fail(Code::not_found, "the folder holds neither safetensors nor GGUF files", dir.string(),
              "give a Hugging Face model directory or a GGUF file");
}

Result<void> check_index(const std::string& file, const SafetensorsHeader& h, const std::vector<std::string>& expected) {
  std::unordered_map<std::string_view, bool> has;
  for (const TensorEntry& t : h.tensors) has[t.name] = true;
  std::vector<std::string> absent;
  for (const std::string& name : expected)
    if (!has.count(name)) absent.push_back(name);
  if (absent.empty()) return {};
  return fail(Code::data_loss,
              "the file lacks " + std::to_string(absent.size()) + " tensors that the index places in it: " + listed(absent), file,
              "download the shard again, with the index of the same revision");
}

Opened open_directory(const fs::path& dir, const levers::Loading& levers) {
  ISO_TRY(const Shards shards, find_shards(dir));
  if (shards.empty()) {
    // A directory that holds one GGUF model stands for it.
    const auto ggufs = files_with(dir, ".gguf");
    if (ggufs.empty()) return no_weights(dir);
    const std::string path = (dir / ggufs[0]).string();
    if (ggufs.size() == 1 || gguf_split_paths(path).size() == ggufs.size()) return open_gguf(path, levers);
    return fail(Code::invalid_argument, "the folder holds several GGUF files: " + listed(ggufs), dir.string(), "name the file to open");
  }
  auto c = std::make_unique<FileCheckpoint>("safetensors", !levers.disable_mmap);
  const std::string config = (dir / "config.json").string();
  std::error_code ec;
  if (!fs::exists(config, ec))
    return fail(Code::not_found, "the folder has no config.json beside its weights", dir.string(),
                "download the model's config.json into it");
  ISO_TRY(const std::string text, base::read_text_file(config, kMaxConfig));
  ISO_TRY(c->metadata_, Metadata::from_json(text, config));
  for (const auto& [file, expected] : shards) {
    ISO_TRY(auto shard, read_safetensors((dir / file).string()));
    ISO_CHECK_OK(check_index(shard.first.path(), shard.second, expected));
    ISO_CHECK_OK(c->add(std::move(shard.first), std::move(shard.second.tensors)));
  }
  ISO_TRY(c->vocab_, vocab_from_directory(dir.string(), c->metadata_));
  ISO_CHECK_OK(c->index());
  const fs::path beside = dir / "hf_quant_config.json";
  if (!fs::exists(beside, ec)) return present_quantized(std::move(c));
  ISO_TRY(const std::string quantization, base::read_text_file(beside.string(), kMaxConfig));
  ISO_TRY(const nlohmann::json tree, parse_json(quantization, beside.string()));
  return present_quantized(std::move(c), &tree);
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::string& path, const levers::Loading& levers) {
  std::error_code ec;
  if (path.find('\0') == path.npos) {
    if (fs::is_directory(path, ec)) return open_directory(path, levers);
    if (fs::path(path).extension() == ".safetensors")
      return fail(Code::invalid_argument, "the file is one of several that make a model; its config.json and tokenizer are needed too", path,
                  "give the directory that holds it");
  }
  return open_gguf(path, levers);
}

}  // namespace isotope::weights

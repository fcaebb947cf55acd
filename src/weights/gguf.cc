#include "weights/gguf.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "weights/cursor.h"
#include "weights/json.h"

namespace isotope::weights {

namespace {

constexpr uint64_t kMaxKeyBytes = 65535, kMaxNameBytes = 1024, kMaxAlignment = uint64_t{1} << 20;
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1, kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr const char* kAgain = "download the file again; it is damaged or was not written by a GGUF converter";

/// Reads one header. Methods return false after having set either error_ or (through the cursor) the wish for more bytes.
class Parser {
 public:
  Parser(std::span<const std::byte> head, uint64_t file_size, const std::string& name)
      : in_(head, file_size), file_size_(file_size), name_(name) {}

  Result<std::optional<GgufHeader>> parse() {
    if (preamble() && key_values() && tensors() && placement()) return std::optional(std::move(out_));
    if (error_) return tl::unexpected(std::move(*error_));
    return std::optional<GgufHeader>();
  }

 private:
  bool refuse(std::string what, const std::string& where, std::string remedy = kAgain, Code code = Code::data_loss) {
    error_ = Error{code, std::move(what), name_ + ", " + where, std::move(remedy)};
    return false;
  }
  std::string offset() const { return "offset " + std::to_string(in_.at()); }

  // After a failed read: a wish for more bytes, or the error that the file ends.
  bool ran_out(const std::string& part, const std::string& where) {
    if (in_.starved()) return false;
    return refuse("the file ends inside " + part + " (it has " + std::to_string(file_size_) + " bytes)", where + ", " + offset(),
                  "download the file again; it is cut off or damaged");
  }

  bool preamble();
  bool check_version();
  bool key_values();
  bool value(const std::string& key, GgufValue& v);
  bool elements(const std::string& key, GgufValue& v);
  bool alignment();
  bool tensors();
  bool tensor(uint64_t index);
  bool dimensions(TensorEntry& t, const std::string& where);
  bool placement();
  bool overlaps();

  Cursor in_;
  const uint64_t file_size_;
  const std::string& name_;
  std::optional<Error> error_;
  GgufHeader out_;
  uint64_t n_tensors_ = 0, n_values_ = 0;
};

bool Parser::preamble() {
  char magic[4];
  if (!in_.get(magic)) return ran_out("the magic number", "header");
  if (std::string_view(magic, 4) != "GGUF")
    return refuse("starts with " + quote_name({magic, 4}) + " instead of 'GGUF'", "offset 0",
                  "give a GGUF file or a Hugging Face directory", Code::invalid_argument);
  if (!in_.get(out_.version)) return ran_out("the version", "header");
  if (!check_version()) return false;
  if (!in_.get(n_tensors_)) return ran_out("the tensor count", "header");
  if (!in_.get(n_values_)) return ran_out("the key count", "header");
  // Counts are bounded by the file's size before anything is sized by them.
  const uint64_t left = in_.left_in_file();
  if (n_values_ > left / kMinKeyValueBytes)
    return refuse("claims " + std::to_string(n_values_) + " keys, more than the file can hold", "offset 16");
  if (n_tensors_ > (left - n_values_ * kMinKeyValueBytes) / kMinTensorBytes)
    return refuse("claims " + std::to_string(n_tensors_) + " tensors, more than the file can hold", "offset 8");
  return true;
}

bool Parser::check_version() {
  const uint32_t v = out_.version;
  if (v == 2 || v == 3) return true;
  if ((v & 0xffff) == 0 && v != 0)
    return refuse("is a big-endian GGUF file", "offset 4",
                  "convert it with `gguf-convert-endian FILE little` of the gguf Python package", Code::unsupported);
  return refuse("has GGUF version " + std::to_string(v) + ", versions 2 and 3 are supported", "offset 4",
                "convert the model again with a current converter", Code::unsupported);
}

bool Parser::key_values() {
  std::vector<std::pair<std::string, GgufValue>> values;
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < n_values_; ++i) {
    const uint64_t begin = in_.at();
    std::string_view key;
    if (!in_.text(key)) return ran_out("key " + std::to_string(i), "key-values");
    if (!valid_name(key, kMaxKeyBytes))
      return refuse("key " + std::to_string(i) + " is no valid name: " + quote_name(key), "offset " + std::to_string(begin));
    if (!seen.insert(key).second) return refuse("key " + quote_name(key) + " occurs twice", "offset " + std::to_string(begin));
    GgufValue v;
    if (!value(std::string(key), v)) return false;
    values.emplace_back(key, v);
  }
  out_.metadata = Metadata::from_gguf(std::move(values), name_);
  return alignment();
}

bool Parser::value(const std::string& key, GgufValue& v) {
  const std::string where = "key " + quote_name(key);
  const auto known = [&](GgufType t) {
    if (uint32_t(t) <= uint32_t(GgufType::f64)) return true;
    return refuse("value type " + std::to_string(uint32_t(t)) + " is unknown", where + ", " + offset());
  };
  if (!in_.get(v.type)) return ran_out("the value type", where);
  if (!known(v.type)) return false;
  if (v.type != GgufType::array) return elements(where, v);
  v.is_array = true;
  if (!in_.get(v.type) || !in_.get(v.count)) return ran_out("an array", where);
  if (!known(v.type)) return false;
  if (v.type == GgufType::array)
    return refuse("is an array of arrays", where + ", " + offset(),
                  "convert the model again; no published model has nested arrays", Code::unsupported);
  return elements(where, v);
}

bool Parser::elements(const std::string& where, GgufValue& v) {
  const uint64_t begin = in_.at(), size = gguf_type_bytes(v.type);
  const uint64_t least = size ? size : 8;  // a string has at least its length
  if (v.count > in_.left_in_file() / least) {
    if (v.is_array)
      return refuse("claims " + std::to_string(v.count) + " elements of " + std::string(gguf_type_name(v.type)) +
                        ", more than the file can hold",
                    where + ", " + offset());
    return ran_out("the value", where);
  }
  if (size) {
    if (!in_.take(v.count * size, v.bytes)) return ran_out("the value", where);
  } else {
    std::string_view s;
    for (uint64_t i = 0; i < v.count; ++i)
      if (!in_.text(s)) return ran_out(v.is_array ? "element " + std::to_string(i) : "the string", where);
    v.bytes = in_.since(begin);
  }
  if (v.type == GgufType::boolean)
    for (const std::byte b : v.bytes)
      if (b > std::byte{1}) return refuse("holds the boolean " + std::to_string(int(b)) + " (only 0 and 1 are)", where);
  return true;
}

bool Parser::alignment() {
  constexpr std::string_view kKey = "general.alignment";
  auto v = out_.metadata.integer_or(kKey, 32);
  if (!v) {
    error_ = std::move(v).error();
    return false;
  }
  if (*v <= 0 || !std::has_single_bit(uint64_t(*v)) || uint64_t(*v) > kMaxAlignment)
    return refuse("alignment " + std::to_string(*v) + " is not a power of two from 1 to " + std::to_string(kMaxAlignment),
                  "key " + quote_name(kKey));
  out_.alignment = uint64_t(*v);
  return true;
}

bool Parser::tensors() {
  out_.tensors.reserve(size_t(std::min<uint64_t>(n_tensors_, 65536)));
  for (uint64_t i = 0; i < n_tensors_; ++i)
    if (!tensor(i)) return false;
  std::unordered_set<std::string_view> seen;
  for (const TensorEntry& t : out_.tensors)
    if (!seen.insert(t.name).second) return refuse("tensor name occurs twice", "tensor " + quote_name(t.name));
  return true;
}

bool Parser::tensor(uint64_t index) {
  const uint64_t begin = in_.at();
  std::string_view name;
  if (!in_.text(name)) return ran_out("the name of tensor " + std::to_string(index), "tensor list");
  if (!valid_name(name, kMaxNameBytes))
    return refuse("tensor " + std::to_string(index) + " has no valid name: " + quote_name(name),
                  "offset " + std::to_string(begin));
  TensorEntry t;
  t.name = name;
  const std::string where = "tensor " + quote_name(name);
  if (!dimensions(t, where)) return false;
  uint32_t type;
  if (!in_.get(type) || !in_.get(t.offset)) return ran_out("the tensor's entry", where);
  const tensor::Format* f = tensor::format_by_ggml(type);
  if (!f)
    return refuse("tensor type " + std::to_string(type) + " is not supported", where,
                  "convert the model to a supported type such as Q8_0 or Q4_K", Code::unsupported);
  t.dtype = f->dtype;
  const uint64_t cols = uint64_t(t.shape[size_t(t.rank - 1)]), elements = t.bytes;  // dimensions() left the product in `bytes`
  if (cols % uint64_t(f->block) != 0)
    return refuse("rows of " + std::to_string(cols) + " elements do not fill " + std::string(f->name) + " blocks of " +
                      std::to_string(f->block),
                  where);
  const uint64_t blocks = elements / uint64_t(f->block);
  if (blocks > file_size_ / uint64_t(f->bytes))
    return refuse(std::to_string(elements) + " elements of " + std::string(f->name) + " are more than the file holds", where);
  t.bytes = blocks * uint64_t(f->bytes);
  out_.tensors.push_back(std::move(t));
  return true;
}

bool Parser::dimensions(TensorEntry& t, const std::string& where) {
  uint32_t rank;
  if (!in_.get(rank)) return ran_out("the number of dimensions", where);
  if (rank < 1 || rank > 4)
    return refuse("has " + std::to_string(rank) + " dimensions, 1 to 4 are supported", where + ", " + offset());
  t.rank = int(rank);
  uint64_t product = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t d;
    if (!in_.get(d)) return ran_out("the dimensions", where);
    if (d == 0 || d > uint64_t(INT64_MAX))
      return refuse("dimension " + std::to_string(i) + " is " + std::to_string(d), where + ", " + offset());
    if (__builtin_mul_overflow(product, d, &product) || product > uint64_t(INT64_MAX))
      return refuse("the product of the dimensions overflows 64 bits", where + ", " + offset());
    t.shape[rank - 1 - i] = int64_t(d);  // files list the innermost dimension first
  }
  t.bytes = product;
  return true;
}

// Turns offsets into positions in the file and checks that every tensor lies inside it.
bool Parser::placement() {
  out_.data_start = (in_.at() + out_.alignment - 1) / out_.alignment * out_.alignment;
  const uint64_t room = out_.data_start <= file_size_ ? file_size_ - out_.data_start : 0;
  for (TensorEntry& t : out_.tensors) {
    const std::string where = "tensor " + quote_name(t.name);
    if (t.offset % out_.alignment != 0)
      return refuse(
          "offset " + std::to_string(t.offset) + " is not a multiple of the alignment " + std::to_string(out_.alignment), where);
    if (t.offset > room || t.bytes > room - t.offset)
      return refuse("its " + std::to_string(t.bytes) + " bytes at data offset " + std::to_string(t.offset) +
                        " reach beyond the end of the file (" + std::to_string(file_size_) + " bytes)",
                    where, "download the file again; it is cut off or damaged");
    t.offset += out_.data_start;
  }
  return overlaps();
}

bool Parser::overlaps() {
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& t : out_.tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
      return refuse("overlaps tensor " + quote_name(order[i - 1]->name) + " at offset " + std::to_string(order[i]->offset),
                    "tensor " + quote_name(order[i]->name));
  return true;
}

constexpr std::string_view kSuffix = ".gguf";

bool five_digits(std::string_view s, int& value) {
  value = 0;
  for (const char c : s) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  return s.size() == 5;
}

std::string five_digits(int v) {
  std::string s = std::to_string(v);
  return std::string(5 - s.size(), '0') + s;
}

}  // namespace

Result<std::optional<GgufHeader>> parse_gguf(std::span<const std::byte> head, uint64_t file_size, const std::string& name) {
  static_assert(std::endian::native == std::endian::little, "GGUF files are little-endian and are read in place");
  return Parser(head, file_size, name).parse();
}

std::vector<std::string> gguf_split_paths(const std::string& path) {
  constexpr size_t kTail = 20;  // "-00001-of-00003.gguf"
  if (path.size() <= kTail || !std::string_view(path).ends_with(kSuffix)) return {};
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail);
  int no = 0, count = 0;
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !five_digits(tail.substr(1, 5), no) ||
      !five_digits(tail.substr(10, 5), count))
    return {};
  if (no < 1 || no > count) return {};
  std::vector<std::string> out;
  const std::string stem = path.substr(0, path.size() - kTail);
  for (int i = 1; i <= count; ++i)
    out.push_back(stem + "-" + five_digits(i) + "-of-" + five_digits(count) + std::string(kSuffix));
  return out;
}

}  // namespace isotope::weights

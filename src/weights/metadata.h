// What a checkpoint's files say about the model besides its tensors: GGUF key-values or a config.json tree, behind one set of
// typed getters. A getter's error names the key, the type that was expected and the one that was found. Views are valid as long
// as the checkpoint lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isotope/result.h"

namespace isotope::weights {

/// Value types of GGUF with their ids in files.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
std::string_view gguf_type_name(GgufType);
/// Bytes of a scalar of that type; 0 for strings and arrays.
size_t gguf_type_bytes(GgufType);

/// One checked value inside the header's bytes.
struct GgufValue {
  GgufType type{};  ///< of the value, or of an array's elements
  bool is_array = false;
  uint64_t count = 1;                ///< elements
  std::span<const std::byte> bytes;  ///< the elements as the file stores them (strings: u64 length and text, one after the other)
};

class Metadata {
 public:
  Metadata() = default;
  /// `source` is the file's name for messages. Keys are unique.
  static Metadata from_gguf(std::vector<std::pair<std::string, GgufValue>> values, std::string source);
  /// `text` is the content of config.json (an object); "Infinity" and "NaN", which Python writes, are understood.
  static Result<Metadata> from_json(std::string_view text, std::string source);
  /// A copy in which the given keys (dotted paths, as below) have other values, each a JSON text; what is no JSON is taken as a
  /// string.
  Result<Metadata> with_overrides(const std::map<std::string, std::string>&) const;

  // A key is GGUF's ("llama.block_count") or a path into config.json ("rope_scaling.factor"; a key that itself contains dots is
  // found first). JSON null counts as missing.
  bool has(std::string_view key) const;
  bool is_array(std::string_view key) const;

  Result<std::string_view> string(std::string_view key) const;
  Result<int64_t> integer(std::string_view key) const;  ///< any integer type, or a float without a fraction
  Result<double> number(std::string_view key) const;    ///< any integer or float type; float32 values are exact
  Result<bool> boolean(std::string_view key) const;

  // The same for keys that may be missing; a value of another type is still an error.
  Result<std::string_view> string_or(std::string_view key, std::string_view otherwise) const;
  Result<int64_t> integer_or(std::string_view key, int64_t otherwise) const;
  Result<double> number_or(std::string_view key, double otherwise) const;
  Result<bool> boolean_or(std::string_view key, bool otherwise) const;

  Result<std::vector<std::string_view>> strings(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;
  Result<std::vector<bool>> booleans(std::string_view key) const;
  Result<std::string> bytes(std::string_view key) const;  ///< an array of 8-bit integers, GGUF only

  std::vector<std::string> keys() const;                             ///< in the file's order; top level of a config.json
  std::string type_name(std::string_view key) const;                 ///< "u32", "array of string", "object"; empty when missing
  std::string text(std::string_view key, size_t limit = 200) const;  ///< for people: strings cut at `limit`, arrays summarised
  const nlohmann::json* tree() const { return json_.get(); }         ///< the tree (overrides not applied), or null for GGUF
  const GgufValue* gguf(std::string_view key) const;  ///< the value as the file stores it; null when missing or not of a GGUF file
  const std::string& source() const { return source_; }

 private:
  struct Found {
    const GgufValue* gguf = nullptr;
    const nlohmann::json* json = nullptr;
    explicit operator bool() const { return gguf || json; }
  };
  Found find(std::string_view key) const;
  tl::unexpected<Error> missing(std::string_view key) const;
  tl::unexpected<Error> mismatch(std::string_view key, std::string_view expected) const;
  Result<Found> scalar(std::string_view key, std::string_view expected) const;
  template <class T, class F>
  Result<std::vector<T>> elements(std::string_view key, std::string_view expected, F convert) const;

  std::string source_;
  std::vector<std::pair<std::string, GgufValue>> values_;
  std::unordered_map<std::string, size_t> index_;
  std::shared_ptr<const nlohmann::json> json_;       // immutable, shared between copies
  std::shared_ptr<const nlohmann::json> overrides_;  // flat: path -> value
};

}  // namespace isotope::weights

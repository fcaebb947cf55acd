#include "kv/event_codec.h"

#include "kv/msgpack.h"

namespace isotope::kv {

namespace {

class Encoder {
 public:
  explicit Encoder(const EventFormat& format) : format_(format), map_(format.encoding == EventEncoding::map) {}

  std::string batch(const EventBatch& b) {
    w_.array(3);
    w_.real(b.seconds);
    w_.array(b.events.size());
    for (const Event& e : b.events) std::visit([this](const auto& event) { one(event); }, e);
    w_.uint(uint64_t(b.rank));
    return w_.take();
  }

 private:
  /// Fields follow in declaration order; the array form has the type in front instead of under "type".
  void begin(std::string_view type, size_t fields) {
    if (map_) {
      w_.map(fields + 1);
      w_.text("type");
    } else {
      w_.array(fields + 1);
    }
    w_.text(type);
  }
  void key(std::string_view name) {
    if (map_) w_.text(name);
  }
  void text_or_nil(std::string_view s) { s.empty() ? w_.nil() : w_.text(s); }
  template <class T>
  void numbers(const std::vector<T>& v) {
    w_.array(v.size());
    for (const T n : v) w_.uint(uint64_t(n));
  }

  /// vLLM's order: the adapter's name for every block, the salt where the private part begins.
  void extra_keys(const BlockStored& e) {
    w_.array(e.hashes.size());
    for (size_t i = 0; i < e.hashes.size(); ++i) {
      const bool salted = int64_t(i) == e.salted;
      const size_t n = size_t(!e.labels.lora.empty()) + size_t(salted);
      if (n == 0) {
        w_.nil();
        continue;
      }
      w_.array(n);
      if (!e.labels.lora.empty()) w_.text(e.labels.lora);
      if (salted) w_.text(e.labels.salt);
    }
  }

  void one(const BlockStored& e) {
    const bool extra = !e.labels.lora.empty() || e.salted >= 0;
    begin("BlockStored", extra ? 8 : 7);
    key("block_hashes");
    numbers(e.hashes);
    key("parent_block_hash");
    e.parent ? w_.uint(*e.parent) : w_.nil();
    key("token_ids");
    numbers(e.tokens);
    key("block_size");
    w_.uint(uint64_t(format_.block_size));
    key("lora_id");
    w_.nil();
    key("medium");
    w_.text(kMedium);
    key("lora_name");
    text_or_nil(e.labels.lora);
    if (!extra) return;
    key("extra_keys");
    extra_keys(e);
  }
  void one(const BlockRemoved& e) {
    begin("BlockRemoved", 2);
    key("block_hashes");
    numbers(e.hashes);
    key("medium");
    w_.text(kMedium);
  }
  void one(const AllBlocksCleared&) { begin("AllBlocksCleared", 0); }

  EventFormat format_;
  bool map_;
  MsgpackWriter w_;
};

}  // namespace

std::string encode(const EventBatch& b, const EventFormat& format) {
  return Encoder(format).batch(b);
}

SequenceBytes sequence_bytes(uint64_t n) {
  SequenceBytes out;
  for (size_t i = 0; i < 8; ++i) out[i] = char(uint8_t(n >> (56 - 8 * i)));
  return out;
}

std::optional<ReplayRequest> parse_replay_request(std::span<const std::string_view> frames) {
  if (frames.size() != 2 && frames.size() != 3) return std::nullopt;
  if (frames.front().empty() || frames.back().size() != 8) return std::nullopt;
  if (frames.size() == 3 && !frames[1].empty()) return std::nullopt;
  ReplayRequest r{.delimited = frames.size() == 3};
  for (const char c : frames.back()) r.from = r.from << 8 | uint8_t(c);
  return r;
}

std::string encode_window(std::optional<std::pair<uint64_t, uint64_t>> window) {
  MsgpackWriter w;
  w.array(2);
  window ? w.uint(window->first) : w.nil();
  window ? w.uint(window->second) : w.nil();
  return w.take();
}

}  // namespace isotope::kv

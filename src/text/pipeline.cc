#include "text/pipeline.h"

#include <algorithm>
#include <unordered_set>

#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr size_t kLongestText = size_t{1} << 31;
constexpr size_t kIdleWork = 16;  // about 1 MiB each

/// Zones of a joined text; borders inside a character move inward.
SpecialZones zones_of(std::span<const Tokenizer::Piece> pieces, const std::vector<size_t>& ends, std::string_view text) {
  if (std::all_of(pieces.begin(), pieces.end(), [](const auto& p) { return p.special || p.text.empty(); })) return SpecialZones::all();
  std::vector<Span> ranges;
  const auto inside_char = [&](size_t at) { return at < text.size() && (uint8_t(text[at]) & 0xC0) == 0x80; };
  for (size_t i = 0, begin = 0; i < pieces.size(); begin = ends[i++]) {
    if (!pieces[i].special || begin == ends[i]) continue;
    if (!ranges.empty() && ranges.back().end == begin) {
      ranges.back().end = ends[i];
    } else {
      ranges.push_back({begin, ends[i]});
    }
  }
  for (Span& s : ranges) {
    while (s.begin < s.end && inside_char(s.begin)) s.begin++;
    while (s.end > s.begin && inside_char(s.end)) s.end--;
  }
  std::erase_if(ranges, [](Span s) { return s.begin == s.end; });
  return ranges.empty() ? SpecialZones::none() : SpecialZones(std::move(ranges));
}

tl::unexpected<Error> uncut(const std::string& error) {
  return fail(Code::unsupported, error, "tokenizer", "shorten the text or use a model whose tokenizer does not need this pattern");
}

}  // namespace

JoinedText join_pieces(std::span<const Tokenizer::Piece> pieces) {
  JoinedText out;
  std::vector<size_t> ends;
  const auto join = [&](auto convert) {
    out.text.clear();
    ends.clear();
    for (const auto& p : pieces) ends.push_back((out.text += convert(p.text)).size());
  };
  join([](const std::string& s) -> const std::string& { return s; });
  if (!valid_utf8(out.text)) join([](const std::string& s) { return repair_utf8(s); });
  out.zones = zones_of(pieces, ends, out.text);
  return out;
}

struct Pipeline::Work {
  Scratch scratch;
  RegexWork regex;
  PreText pre;
  std::vector<AddedTokens::Part> raw, normalized;
  std::string text;
  std::vector<int32_t> ids;
};

/// Working memory for one call; goes back to the pool afterwards.
class Pipeline::Lease {
 public:
  explicit Lease(const Pipeline& p) : pipeline_(p) {
    const std::lock_guard lock(p.mutex_);
    if (!p.idle_.empty()) {
      work_ = std::move(p.idle_.back());
      p.idle_.pop_back();
    }
  }
  ~Lease() {
    const std::lock_guard lock(pipeline_.mutex_);
    if (work_ && pipeline_.idle_.size() < kIdleWork) pipeline_.idle_.push_back(std::move(work_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Work& operator*() {
    if (!work_) work_ = std::make_unique<Work>();
    return *work_;
  }

 private:
  const Pipeline& pipeline_;
  std::unique_ptr<Work> work_;
};

Pipeline::Pipeline(Parts parts) : parts_(std::move(parts)) {
  special_ = parts_.hidden;
  special_.resize(size_t(size()));
  for (const AddedToken& t : parts_.added)
    if (t.special && t.id >= 0) special_[size_t(t.id)] = true;
  RegexWork work;
  const auto normalized = [&](std::string text) {
    if (parts_.normalizer) parts_.normalizer->apply(text, work);
    return text;
  };
  added_.build(parts_.added, normalized);
  skipped_ = special_;
  std::unordered_set<std::string> special_texts;
  for (const AddedToken& t : parts_.added)
    if (t.special) special_texts.insert(t.content);
  for (const AddedToken& t : parts_.added) {
    if (!t.normalized || t.id < 0) continue;
    std::string text = normalized(t.content);
    if (text == t.content) continue;
    skipped_[size_t(t.id)] = special_texts.contains(text);
    normalized_.emplace(t.id, std::move(text));
  }
  // A control token of one character has no other spelling: text may become it.
  std::vector<bool> guarded = special_;
  for (size_t id = 0; id < guarded.size(); id++)
    if (guarded[id] && count_chars(token_text(int32_t(id))) < 2) guarded[id] = false;
  parts_.model->set_special(std::move(guarded));
  const std::vector<int32_t> empty = post_process({});
  adds_bos_ = parts_.bos_id >= 0 && !empty.empty() && empty[0] == parts_.bos_id;
}
Pipeline::~Pipeline() = default;

std::vector<int32_t> Pipeline::encode(std::string_view text, bool add_special, bool parse_special) const {
  std::string repaired;
  if (!valid_utf8(text)) text = repaired = repair_utf8(text);
  return run(text, parse_special ? SpecialZones::all() : SpecialZones::none(), add_special).first;
}

std::vector<int32_t> Pipeline::encode_pieces(std::span<const Piece> pieces, bool add_special) const {
  auto ids = try_encode(pieces, add_special);
  if (ids) return std::move(*ids);
  std::string text;
  for (const Piece& p : pieces) text += p.text;
  return encode(text, add_special, false);
}

Result<std::vector<int32_t>> Pipeline::try_encode(std::span<const Piece> pieces, bool add_special) const {
  const JoinedText joined = join_pieces(pieces);
  auto [ids, error] = run(joined.text, joined.zones, add_special);
  if (!error.empty()) return uncut(error);
  return std::move(ids);
}

Result<void> Pipeline::encode_segment(std::string_view text, Span segment, const SpecialZones& zones, std::vector<int32_t>& out) const {
  Lease lease(*this);
  Work& w = *lease;
  w.ids.clear();
  w.regex.begin(text.size());
  encode_segment(text.substr(segment.begin, segment.end - segment.begin), segment.begin, zones, w);
  out.insert(out.end(), w.ids.begin(), w.ids.end());
  if (w.regex.failed()) return uncut(w.regex.error());
  return {};
}

std::pair<std::vector<int32_t>, std::string> Pipeline::run(std::string_view text, const SpecialZones& zones, bool add_special) const {
  if (text.size() >= kLongestText) return {{}, "the text is 2 GiB or longer"};
  Lease lease(*this);
  Work& w = *lease;
  w.ids.clear();
  w.regex.begin(text.size());
  encode_text(text, zones, w);
  std::vector<int32_t> ids(w.ids.begin(), w.ids.end());
  return {add_special ? post_process(std::move(ids)) : std::move(ids), w.regex.error()};
}

void Pipeline::encode_text(std::string_view text, const SpecialZones& zones, Work& w) const {
  w.raw.clear();
  added_.split(text, false, zones, w.raw);
  for (const AddedTokens::Part& part : w.raw) {
    if (part.token >= 0) {
      w.ids.push_back(added_.tokens()[size_t(part.token)].id);
    } else {
      encode_segment(text.substr(part.span.begin, part.span.end - part.span.begin), part.span.begin, zones, w);
    }
  }
}

void Pipeline::encode_segment(std::string_view segment, size_t offset, const SpecialZones& zones, Work& w) const {
  w.scratch.allow_special = zones.covers(offset, offset + segment.size());
  std::string_view text = segment;
  if (parts_.normalizer) {
    w.text.assign(segment);
    parts_.normalizer->apply(w.text, w.regex);
    text = w.text;
  }
  if (!added_.any_normalized()) return encode_words(text, offset == 0, w);
  w.normalized.clear();
  added_.split(text, true, normalized_zones(segment, offset, text, zones, w), w.normalized);
  for (const AddedTokens::Part& part : w.normalized) {
    if (part.token >= 0) {
      w.ids.push_back(added_.tokens()[size_t(part.token)].id);
    } else {
      encode_words(text.substr(part.span.begin, part.span.end - part.span.begin), offset == 0 && part.span.begin == 0, w);
    }
  }
}

/// Where in normalized text control tokens may be found. A border is where the normalized text before it ends; a zone must also hold the same text
/// when it is normalized on its own, so that content next to it can never pass for template text.
SpecialZones Pipeline::normalized_zones(std::string_view segment, size_t offset, std::string_view normalized, const SpecialZones& zones, Work& w) const {
  if (zones.covers(offset, offset + segment.size())) return SpecialZones::all();
  if (zones.nowhere()) return SpecialZones::none();
  std::vector<Span> ranges;
  const auto position = [&](size_t raw_end) {
    std::string head(segment.substr(0, raw_end));
    if (parts_.normalizer) parts_.normalizer->apply(head, w.regex);
    return std::min(head.size(), normalized.size());
  };
  for (const Span& z : zones.ranges()) {
    const size_t begin = std::max(z.begin, offset), end = std::min(z.end, offset + segment.size());
    if (begin >= end) continue;
    const Span range{begin == offset ? 0 : position(begin - offset), end == offset + segment.size() ? normalized.size() : position(end - offset)};
    if (range.begin < range.end && (ranges.empty() || ranges.back().end < range.begin)) ranges.push_back(range);
  }
  const auto inside_char = [&](size_t at) { return at < normalized.size() && (uint8_t(normalized[at]) & 0xC0) == 0x80; };
  for (Span& s : ranges) {
    while (s.begin < s.end && inside_char(s.begin)) s.begin++;
    while (s.end > s.begin && inside_char(s.end)) s.end--;
  }
  std::erase_if(ranges, [](Span s) { return s.begin == s.end; });
  return ranges.empty() ? SpecialZones::none() : SpecialZones(std::move(ranges));
}

void Pipeline::encode_words(std::string_view text, bool at_start, Work& w) const {
  if (text.empty()) return;
  PreText& t = w.pre;
  t.text = text;
  t.at_start = at_start;
  t.regex = &w.regex;
  t.pieces.assign(1, {0, text.size()});
  for (const auto& step : parts_.pre_steps) step->apply(t);
  for (const Span s : t.pieces) parts_.model->tokenize(t.piece(s), w.scratch, w.ids);
}

std::vector<int32_t> Pipeline::post_process(std::vector<int32_t> ids) const {
  for (const auto& items : parts_.post) {
    std::vector<int32_t> out;
    out.reserve(ids.size() + items.size() + 2);
    for (const TemplateItem& item : items) {
      const auto& source = item.sequence ? ids : item.ids;
      out.insert(out.end(), source.begin(), source.end());
    }
    ids.swap(out);
  }
  return ids;
}

std::string_view Pipeline::token_text(int32_t id) const { return parts_.extra->has(id) ? parts_.extra->text(id) : parts_.vocab->text(id); }

std::optional<std::string> Pipeline::decoder_text(int32_t id, bool skip_special) const {
  if (skip_special && id >= 0 && size_t(id) < skipped_.size() && skipped_[size_t(id)]) return std::nullopt;
  if (const auto it = normalized_.find(id); it != normalized_.end()) return it->second;
  const std::string_view text = token_text(id);
  return text.data() ? std::optional<std::string>(text) : std::nullopt;
}

int32_t Pipeline::token_id(std::string_view text) const {
  const int32_t id = parts_.extra->find(text);
  return id >= 0 ? id : parts_.vocab->find(text);
}

std::string Pipeline::token_bytes(int32_t id) const {
  const std::string_view text = token_text(id);
  if (text.empty()) return {};
  return is_special(id) ? std::string(text) : token_text_bytes(parts_.decoder, text);
}

}  // namespace isotope::text

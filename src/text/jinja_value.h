// Values of the template language: Python's, as far as a template can see them. Containers never change once built (the sandbox
// forbids it), except namespaces, which the Vm empties at the end of a render, so that no cycle of references survives. Inside
// the engine errors are thrown as Failure; ChatTemplate turns them into Error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace isotope::text::jinja {

enum class Fault : uint8_t {
  syntax,
  unsupported,
  undefined,
  type,
  value,
  index,
  security,
  runtime,
  overflow,
  zero_division,
  raised,
  argument,
  limit
};

inline constexpr uint32_t kNoPos = 0xffffffff;

struct Failure {
  Fault fault;
  std::string what;
  uint32_t pos = kNoPos;  ///< byte in the template source; kNoPos = the node that is being evaluated
};
[[noreturn]] void raise(Fault fault, std::string what, uint32_t pos = kNoPos);

/// What a render may use. Every step, copied item and built byte is charged, so that no template can hang or eat the machine.
struct Budget {
  uint64_t steps = 20'000'000;               ///< about a second
  size_t max_string = size_t{64} << 20;      ///< bytes of one string
  size_t max_live = size_t{512} << 20;       ///< bytes of all strings that are alive
  size_t max_items = 1'000'000;              ///< items of one container
  uint32_t max_nesting = 256;                ///< of containers
  uint64_t used = 0;
  size_t live = 0;

  void charge(uint64_t n) {
    if ((used += n) > steps) raise(Fault::limit, "the template takes more than " + std::to_string(steps) + " steps");
  }
  void check_string(size_t bytes) const;
  void check_items(size_t n);
};

enum class Kind : uint8_t {
  missing,  // no value at all: an argument that was not given, a variable that was never set
  undefined,
  none,
  boolean,
  integer,
  real,
  big,
  string,
  bytes,
  list,
  tuple,
  dict,
  view,
  range,
  iterator,
  space,
  function,
  macro,
  loop,
  cycler,
  joiner
};

struct Object {
  virtual ~Object() = default;
  uint32_t depth = 1;  ///< nesting; bounded, so that destruction and printing never overflow the stack
};

class Value {
 public:
  Value() = default;
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool b) { Value v(Kind::boolean); v.i_ = b; return v; }
  static Value integer(int64_t i) { Value v(Kind::integer); v.i_ = i; return v; }
  static Value real(double d) { Value v(Kind::real); v.d_ = d; return v; }

  Kind kind() const { return kind_; }
  bool is(Kind k) const { return kind_ == k; }
  bool is_number() const { return kind_ == Kind::boolean || kind_ == Kind::integer || kind_ == Kind::real || kind_ == Kind::big; }
  bool is_int() const { return kind_ == Kind::boolean || kind_ == Kind::integer; }  ///< bool is an int
  int64_t as_int() const { return i_; }
  double as_real() const { return kind_ == Kind::real ? d_ : static_cast<double>(i_); }
  uint32_t depth() const { return object_ ? object_->depth : 0; }
  const Object* object() const { return object_.get(); }
  template <class T> T& as() const { return static_cast<T&>(*object_); }
  template <class T> std::shared_ptr<T> shared() const { return std::static_pointer_cast<T>(object_); }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::missing;
  union { int64_t i_ = 0; double d_; };
  std::shared_ptr<Object> object_;
};

/// Bytes [begin, end) of a string that came out of messages, tools or other input; sorted, disjoint, never empty.
struct Span { uint32_t begin, end; };

struct Str final : Object {
  ~Str() override { if (owner) owner->live -= text.size(); }
  std::string text;           ///< valid UTF-8
  std::vector<Span> content;
  size_t points = 0;          ///< code points
  bool markup = false;        ///< markupsafe.Markup: made by `safe` or `escape`; joining it escapes the other side
  Budget* owner = nullptr;    ///< null for literals of the template
  bool ascii() const { return points == text.size(); }
  size_t offset(size_t point) const;  ///< byte of a code point; size() when past the end
};

struct Seq final : Object {
  std::vector<Value> items;
  bool group = false;  ///< a pair made by groupby: has .grouper and .list
};

struct Dict final : Object {
  using Item = std::pair<Value, Value>;
  const std::vector<Item>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  const Value* find(Budget& b, const Value& key) const;  ///< throws for an unhashable key
  const Value* find(std::string_view key) const;
  void set(Budget& b, Value key, Value value);           ///< while it is being built only (and by namespaces)
  void clear() { items_.clear(), index_.clear(); }

 private:
  std::vector<Item> items_;
  std::unordered_multimap<size_t, uint32_t> index_;      ///< only once it pays
};

struct View final : Object { enum { keys, values, pairs } what; std::shared_ptr<Dict> dict; };
struct RangeObject final : Object { int64_t start, stop, step; int64_t size() const; };
struct Space final : Object { Dict attributes; };
struct BigInt final : Object {
  std::string digits;
};  ///< an integer beyond 64 bits: can be printed and compared, not computed with
struct Bytes final : Object { std::string data; };

/// Something with a cursor, as Python's iterators and generators.
struct Iter : Object {
  virtual bool next(Value& out) = 0;
  const char* type = "generator";
};
struct Lazy final : Iter {
  explicit Lazy(std::function<bool(Value&)> f) : step(std::move(f)) {}
  bool next(Value& out) override { return step(out); }
  std::function<bool(Value&)> step;
};

struct Undefined final : Object {
  std::string hint;               ///< the whole message, when set
  std::string owner, name;        ///< else: "'owner' has no attribute 'name'" or "'name' is undefined"
  bool element = false;           ///< "owner has no element name"
  Fault fault = Fault::undefined;
  std::string message() const;
};

Value make_string(Budget& b, std::string text, bool content = false, bool markup = false);  ///< text must be valid UTF-8
Value make_literal(std::string text);                    ///< for the syntax tree: shared by renders, charged to none
Value make_list(Budget& b, std::vector<Value> items);
Value make_tuple(Budget& b, std::vector<Value> items);
Value make_dict(Budget& b, std::shared_ptr<Dict> d);     ///< sets the depth
Value make_lazy(std::function<bool(Value&)> step, const Value& source, const char* type = "generator");
Value make_undefined(std::string name);
Value make_undefined(const Value& owner, const Value& name);
Value make_hint(std::string hint, Fault fault = Fault::undefined);
Value make_big(std::string digits);
Value make_number(double whole);                         ///< a float that holds a whole number, as an int
[[noreturn]] void raise_undefined(const Value& v);

inline const Str& str(const Value& v) { return v.as<Str>(); }
inline std::string_view text(const Value& v) { return v.as<Str>().text; }
bool is_content(const Value& v);                         ///< does any part of this string come from input?
const char* type_name(const Value& v);                   ///< as type(v).__name__
bool truth(const Value& v);
bool is_callable(const Value& v);
size_t length(const Value& v);                           ///< len(); throws where Python does
size_t hash(Budget& b, const Value& v);                  ///< throws for lists, dicts …
bool equal(Budget& b, const Value& x, const Value& y);
bool same(const Value& x, const Value& y);               ///< `is`
bool less(Budget& b, const Value& x, const Value& y, const char* op = "<");
std::shared_ptr<Iter> iterate(Budget& b, const Value& v);
bool is_iterable(const Value& v);
std::vector<Value> collect(Budget& b, const Value& v);   ///< list(v) as a vector
/// Stable; `key` is evaluated once for each item by the caller.
void sort_by(Budget& b, std::vector<std::pair<Value, Value>>& keyed, bool reverse);

/// Builds a string and remembers which bytes are content.
class Writer {
 public:
  explicit Writer(Budget& b) : b_(b) {}
  void add(std::string_view s, bool content = false);
  void add(const Str& s) { add(s, 0, s.text.size()); }
  void add(const Str& s, size_t from, size_t to);
  void add_point(char32_t c, bool content);
  size_t size() const { return s_.size(); }
  void reserve(size_t bytes) { b_.check_string(bytes), s_.reserve(bytes); }
  Budget& budget() { return b_; }
  Value take(bool markup = false);

 private:
  void mark(size_t begin, size_t end);
  Budget& b_;
  std::string s_;
  size_t points_ = 0;
  std::vector<Span> content_;
};
Value substring(Budget& b, const Str& s, size_t from, size_t to);  ///< bytes; keeps markup

/// Walks the content spans of a string forwards.
class ContentCursor {
 public:
  explicit ContentCursor(const Str& s) : s_(s) {}
  bool at(size_t pos) {
    while (i_ < s_.content.size() && s_.content[i_].end <= pos) ++i_;
    return i_ < s_.content.size() && s_.content[i_].begin <= pos;
  }

 private:
  const Str& s_;
  size_t i_ = 0;
};

}  // namespace isotope::text::jinja

// What a completion server streams, read piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace isotope::app {

/// Cuts server-sent events out of a byte stream that may be split anywhere. Ends of lines may be LF or CRLF; comments and other fields are dropped.
class EventSplitter {
 public:
  /// Calls `take` with the data of each event that these bytes complete.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& take);
  /// Bytes of an event that is not complete; a server that makes this grow without end is given up.
  size_t pending() const { return line_.size() + data_.size(); }

 private:
  void end_line(const std::function<void(std::string_view)>& take);
  std::string line_, data_;
  bool has_data_ = false;
};

/// One event of /v1/completions or /v1/chat/completions.
struct Chunk {
  bool done = false;             ///< "[DONE]"
  bool choice = false;           ///< carries generated tokens, or the end of a choice
  bool finished = false;         ///< with a finish_reason
  std::string text;
  std::optional<int64_t> prompt_tokens, completion_tokens;  ///< usage, or llama-server's timings
  std::string fingerprint;       ///< which arithmetic answered, where the server says so
  std::string error;             ///< not empty: the event is an error, or no JSON
};

Chunk read_chunk(std::string_view data);
/// The message in an error body of OpenAI's, vLLM's or FastAPI's shape; the beginning of the text when it has none.
std::string error_message(std::string_view body);

}  // namespace isotope::app

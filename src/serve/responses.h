// OpenAI's responses: requests to the chat form, answers and streams in their shape, and what is kept so that a request can go on from another.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "serve/answer_writer.h"
#include "serve/field_names.h"

namespace isotope::serve {

/// The latest responses with the conversation behind them. Thread-safe.
class ResponseStore {
 public:
  struct Entry {
    Json response;   ///< as it was answered
    Json messages;   ///< the chat up to and with the answer
  };
  explicit ResponseStore(size_t most_bytes = 64 << 20) : most_(most_bytes) {}
  void put(const std::string& id, Entry);
  std::optional<Entry> find(const std::string& id) const;
  bool erase(const std::string& id);

 private:
  struct Kept {
    std::string id;
    Entry entry;
    size_t bytes;
  };
  size_t most_, bytes_ = 0;
  mutable std::mutex mutex_;
  std::list<Kept> kept_;   // the newest first
  std::map<std::string, std::list<Kept>::iterator> by_id_;
};

struct ResponsesRequest {
  Json chat;       ///< the chat request that it stands for
  Json echoed;     ///< what the response repeats of the request
  FieldNames names;  ///< of the chat request's fields, as the responses request has them
  bool store = true;
};
/// Errors name the fields of the responses request.
Result<ResponsesRequest> chat_of_responses(const Json& body, const ResponseStore&);
/// `store` must outlive the writer.
std::unique_ptr<AnswerWriter> responses_writer(const ResponsesRequest&, const Call&, const Frontend&, ResponseStore& store);

}  // namespace isotope::serve

// What a request says about the prefix cache: a salt from some message on, and marks that keep a prefix.
#pragma once

#include "serve/call.h"
#include "serve/fields.h"

namespace isotope::serve {

/// `cache_control` of the request itself keeps all of each prompt. REQUIRES: spec.prompts is filled.
Result<void> parse_cache_fields(const Fields&, Call&);
/// Also `cache_salt_from_message` and the marks in messages and their parts; a mark keeps everything up to the end of its message.
Result<void> parse_chat_cache_fields(const Fields&, const Frontend&, const ChatInput&, Call&);

/// Seconds of a time to live: "90s", "5m", "1h", at most a day.
Result<double> parse_ttl(const std::string& text, const std::string& path);

}  // namespace isotope::serve

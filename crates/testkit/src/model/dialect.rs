//! How each provider writes an answer: the events of a stream, or one document.

use serde_json::{Value, json};

use super::script::Answer;

/// How a request was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

impl Dialect {
    /// By the path of a request; none when it does not ask for an answer of the model.
    pub(super) fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next().unwrap_or(path);
        match path {
            _ if path.ends_with("/messages") => Some(Self::Anthropic),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if path.ends_with("enerateContent") => Some(Self::Gemini),
            _ => None,
        }
    }

    /// Whether the answer is a stream of events.
    pub(super) fn streams(self, path: &str, body: &Value) -> bool {
        match self {
            Self::Gemini => path.contains("streamGenerateContent"),
            Self::Anthropic | Self::Responses | Self::Chat => body["stream"] == true,
        }
    }

    /// The events of an answer, each with its name where the dialect has one.
    pub(super) fn events(self, answer: &Answer, id: u64) -> Vec<(Option<&'static str>, Value)> {
        match self {
            Self::Anthropic => anthropic(answer, id),
            Self::Responses => responses(answer, id),
            Self::Chat => chat(answer, id),
            Self::Gemini => vec![(None, gemini(answer))],
        }
    }

    /// The answer as one document.
    pub(super) fn document(self, answer: &Answer, id: u64) -> Value {
        match self {
            Self::Anthropic => json!({
                "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "stub",
                "content": [anthropic_part(answer, id)], "stop_reason": anthropic_stop(answer),
                "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 2},
            }),
            Self::Responses => response(answer, id),
            Self::Chat => json!({
                "id": format!("chat_{id}"), "object": "chat.completion", "model": "stub",
                "choices": [{"index": 0, "message": chat_message(answer, id),
                    "finish_reason": chat_stop(answer)}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
            }),
            Self::Gemini => gemini(answer),
        }
    }
}

/// An error as every dialect reads it: each looks at members of its own.
pub(super) fn error(dialect: Dialect, status: u16, text: &str) -> Value {
    let (kind, code, rpc) = match status {
        401 => ("authentication_error", "invalid_api_key", "UNAUTHENTICATED"),
        403 => ("permission_error", "forbidden", "PERMISSION_DENIED"),
        404 => ("not_found_error", "model_not_found", "NOT_FOUND"),
        429 => (
            "rate_limit_error",
            "rate_limit_exceeded",
            "RESOURCE_EXHAUSTED",
        ),
        _ => ("api_error", "server_error", "UNAVAILABLE"),
    };
    let code = if dialect == Dialect::Gemini {
        json!(status)
    } else {
        json!(code)
    };
    json!({"type": "error",
        "error": {"type": kind, "code": code, "status": rpc, "message": text, "param": null}})
}

fn anthropic_part(answer: &Answer, id: u64) -> Value {
    match answer {
        Answer::Call(tool, arguments) => {
            json!({"type": "tool_use", "id": call_id(id), "name": tool, "input": arguments})
        }
        other => json!({"type": "text", "text": text(other)}),
    }
}

fn anthropic_stop(answer: &Answer) -> &'static str {
    if matches!(answer, Answer::Call(..)) {
        "tool_use"
    } else {
        "end_turn"
    }
}

fn anthropic(answer: &Answer, id: u64) -> Vec<(Option<&'static str>, Value)> {
    let (begun, delta) = match answer {
        Answer::Call(tool, arguments) => (
            json!({"type": "tool_use", "id": call_id(id), "name": tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
        ),
        other => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": text(other)}),
        ),
    };
    let message = json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "stub",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    });
    let named = |name: &'static str, mut value: Value| {
        value["type"] = json!(name);
        (Some(name), value)
    };
    vec![
        named("message_start", json!({"message": message})),
        named(
            "content_block_start",
            json!({"index": 0, "content_block": begun}),
        ),
        named("content_block_delta", json!({"index": 0, "delta": delta})),
        named("content_block_stop", json!({"index": 0})),
        named(
            "message_delta",
            json!({"delta": {"stop_reason": anthropic_stop(answer), "stop_sequence": null},
                "usage": {"output_tokens": 2}}),
        ),
        named("message_stop", json!({})),
    ]
}

fn response_item(answer: &Answer, id: u64) -> Value {
    match answer {
        Answer::Call(tool, arguments) => json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": call_id(id), "name": tool,
            "arguments": arguments.to_string(), "status": "completed",
        }),
        other => json!({
            "type": "message", "id": format!("msg_{id}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text(other), "annotations": []}],
        }),
    }
}

fn response(answer: &Answer, id: u64) -> Value {
    json!({
        "id": format!("resp_{id}"), "object": "response", "created_at": 0, "status": "completed",
        "model": "stub", "output": [response_item(answer, id)],
        "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12},
    })
}

fn responses(answer: &Answer, id: u64) -> Vec<(Option<&'static str>, Value)> {
    let item = response_item(answer, id);
    let begun = json!({"id": format!("resp_{id}"), "object": "response", "status": "in_progress",
        "created_at": 0, "model": "stub", "output": []});
    let mut events = vec![
        ("response.created", json!({"response": begun})),
        (
            "response.output_item.added",
            json!({"output_index": 0, "item": item}),
        ),
    ];
    if let Answer::Say(text) = answer {
        let part = json!({"item_id": format!("msg_{id}"), "output_index": 0, "content_index": 0,
            "delta": text});
        events.push(("response.output_text.delta", part));
    }
    events.push((
        "response.output_item.done",
        json!({"output_index": 0, "item": item}),
    ));
    events.push((
        "response.completed",
        json!({"response": response(answer, id)}),
    ));
    let named = |(at, (name, mut value)): (usize, (&'static str, Value))| {
        value["type"] = json!(name);
        value["sequence_number"] = json!(at);
        (Some(name), value)
    };
    events.into_iter().enumerate().map(named).collect()
}

fn chat_message(answer: &Answer, id: u64) -> Value {
    match answer {
        Answer::Call(tool, arguments) => json!({"role": "assistant", "content": null,
            "tool_calls": [{"index": 0, "id": call_id(id), "type": "function",
                "function": {"name": tool, "arguments": arguments.to_string()}}]}),
        other => json!({"role": "assistant", "content": text(other)}),
    }
}

fn chat_stop(answer: &Answer) -> &'static str {
    if matches!(answer, Answer::Call(..)) {
        "tool_calls"
    } else {
        "stop"
    }
}

fn chat(answer: &Answer, id: u64) -> Vec<(Option<&'static str>, Value)> {
    let chunk = |delta: Value, stop: Value, usage: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": stop}]);
        let value = json!({"id": format!("chat_{id}"), "object": "chat.completion.chunk",
            "created": 0, "model": "stub", "choices": choices, "usage": usage});
        (None, value)
    };
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12});
    vec![
        chunk(chat_message(answer, id), Value::Null, Value::Null),
        chunk(json!({}), json!(chat_stop(answer)), usage),
    ]
}

fn gemini(answer: &Answer) -> Value {
    let part = match answer {
        Answer::Call(tool, arguments) => json!({"functionCall": {"name": tool, "args": arguments}}),
        other => json!({"text": text(other)}),
    };
    json!({
        "candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [part]}}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12},
        "modelVersion": "stub",
    })
}

fn text(answer: &Answer) -> &str {
    match answer {
        Answer::Say(text) => text,
        _ => "",
    }
}

fn call_id(id: u64) -> String {
    format!("call_stub{id}")
}

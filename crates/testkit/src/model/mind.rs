//! What decides an answer, and is told how far it has been sent.

use serde_json::Value;

use super::script::Answer;

/// One request for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its number, from 0.
    pub number: u64,
    /// The names of the tools that the model may call.
    pub tools: Vec<String>,
    /// All texts of the conversation, in their order.
    pub texts: Vec<String>,
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Asked, and nothing of the answer is sent.
    Asked,
    /// Half of the events are sent.
    Half,
    /// All is sent.
    Whole,
}

/// Decides answers. Its calls come from the thread of a connection and may take their time.
pub trait Mind: Send + Sync {
    /// The answer to a request.
    fn answer(&self, asked: &Asked) -> Answer;
    /// Called before the next part is sent.
    fn reached(&self, _asked: &Asked, _answer: &Answer, _point: Point) {}
}

impl Asked {
    /// Reads a request of any dialect.
    pub(super) fn read(number: u64, body: &Value) -> Self {
        let mut tools = Vec::new();
        for tool in body["tools"].as_array().into_iter().flatten() {
            let declared = tool["functionDeclarations"].as_array();
            let all = declared.map_or(std::slice::from_ref(tool), Vec::as_slice);
            let name = |tool: &Value| {
                let name = [&tool["name"], &tool["function"]["name"], &tool["type"]];
                name.into_iter()
                    .find_map(|name| name.as_str().map(str::to_owned))
            };
            tools.extend(all.iter().filter_map(name));
        }
        let mut texts = Vec::new();
        for part in [
            "system",
            "systemInstruction",
            "instructions",
            "messages",
            "input",
            "contents",
        ] {
            collect(&body[part], &mut texts);
        }
        Self {
            number,
            tools,
            texts,
        }
    }
}

fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(all) => all.iter().for_each(|value| collect(value, texts)),
        Value::Object(all) => all.values().for_each(|value| collect(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

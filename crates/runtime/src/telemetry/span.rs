//! A span, and how OTLP writes it in JSON.

use relight_core::time::Time;
use serde_json::{Value, json};

/// One thing that began and ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TraceSpan {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: String,
    pub(super) begun_at: Time,
    pub(super) ended_at: Time,
    /// Names and values.
    pub(super) attributes: Vec<(&'static str, String)>,
    /// Why it did not go well.
    pub(super) error: Option<String>,
}

/// Sixteen bytes, by what the trace is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceId([u8; 16]);

/// Eight bytes, by what the span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanId([u8; 8]);

impl TraceId {
    pub(super) fn of(parts: &[&str]) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&hash("trace", parts)[..16]);
        Self(id)
    }
}

impl SpanId {
    pub(super) fn of(parts: &[&str]) -> Self {
        let mut id = [0; 8];
        id.copy_from_slice(&hash("span", parts)[..8]);
        Self(id)
    }
}

fn hash(kind: &str, parts: &[&str]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in std::iter::once(&kind).chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl TraceSpan {
    pub(super) fn json(&self) -> Value {
        let attributes = self
            .attributes
            .iter()
            .map(|(name, value)| attribute(name, value));
        let status = match &self.error {
            Some(error) => json!({"code": 2, "message": error}),
            None => json!({"code": 1}),
        };
        json!({
            "traceId": hex(&self.trace.0),
            "spanId": hex(&self.id.0),
            "parentSpanId": self.parent.map(|parent| hex(&parent.0)).unwrap_or_default(),
            "name": self.name,
            "kind": 1,
            "startTimeUnixNano": nanos(self.begun_at),
            "endTimeUnixNano": nanos(self.ended_at.max(self.begun_at)),
            "attributes": attributes.collect::<Vec<Value>>(),
            "status": status,
        })
    }
}

/// All of them as one request.
pub(super) fn request(service: &str, spans: &[TraceSpan]) -> Value {
    let resource = [
        attribute("service.name", service),
        attribute("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let scope = json!({"name": "relight", "version": env!("CARGO_PKG_VERSION")});
    let spans: Vec<Value> = spans.iter().map(TraceSpan::json).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]})
}

fn attribute(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

fn nanos(at: Time) -> String {
    (i128::from(at.as_ms()) * 1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_of_what_they_are_about_and_of_nothing_else() {
        assert_eq!(SpanId::of(&["a", "b"]), SpanId::of(&["a", "b"]));
        assert_ne!(SpanId::of(&["a", "b"]), SpanId::of(&["ab"]));
        assert_ne!(TraceId::of(&["a"]).0[..8], SpanId::of(&["a"]).0);
    }

    #[test]
    fn a_span_is_written_as_the_protocol_wants_it() {
        let span = TraceSpan {
            trace: TraceId([0xab; 16]),
            id: SpanId([1; 8]),
            parent: None,
            name: "attempt".to_owned(),
            begun_at: Time::from_ms(1_500),
            ended_at: Time::from_ms(1_000),
            attributes: vec![("relight.agent", "writer".to_owned())],
            error: Some("signal 9".to_owned()),
        };
        insta::assert_snapshot!(span.json(), @r#"{"traceId":"abababababababababababababababab","spanId":"0101010101010101","parentSpanId":"","name":"attempt","kind":1,"startTimeUnixNano":"1500000000","endTimeUnixNano":"1500000000","attributes":[{"key":"relight.agent","value":{"stringValue":"writer"}}],"status":{"code":2,"message":"signal 9"}}"#);
    }
}

//! The webhook sink: a CloudEvents body, signed as in Standard Webhooks.

use std::net::IpAddr;

use relight_core::time::{Span, Time};
use ureq::http::{Response, StatusCode, Uri};

use super::message::Message;
use super::secret::SigningKey;
use super::signature::signatures;
use super::sink::NotSent;
use crate::http_client;
use crate::os::clock;

/// An endpoint and its signing keys.
#[derive(Clone)]
pub struct Webhook {
    url: String,
    place: String,
    is_loopback: bool,
    keys: Vec<SigningKey>,
    timeout: Span,
}

/// Hides the address, which may be secret.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Webhook").field(&self.place).finish()
    }
}

/// Why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadWebhook {
    /// Not an address.
    #[error("it is not an https:// address")]
    NotAUrl,
    /// Unencrypted.
    #[error("http:// is not encrypted, and {host} is another machine")]
    Plain {
        /// Which.
        host: String,
    },
}

impl Webhook {
    /// `plain` also allows `http://` to other machines.
    pub fn new(
        url: &str,
        keys: Vec<SigningKey>,
        timeout: Span,
        plain: bool,
    ) -> Result<Self, BadWebhook> {
        let parsed: Uri = url.parse().map_err(|_| BadWebhook::NotAUrl)?;
        let (Some(scheme), Some(host)) = (parsed.scheme_str(), parsed.host()) else {
            return Err(BadWebhook::NotAUrl);
        };
        let is_loopback = is_loopback(host);
        match scheme {
            "https" => {}
            "http" if plain || is_loopback => {}
            "http" => {
                return Err(BadWebhook::Plain {
                    host: host.to_owned(),
                });
            }
            _ => return Err(BadWebhook::NotAUrl),
        }
        let port = parsed
            .port_u16()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let place = format!("{scheme}://{host}{port}");
        Ok(Self {
            url: url.to_owned(),
            place,
            is_loopback,
            keys,
            timeout,
        })
    }

    /// The address without secrets.
    pub fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn timeout(&self) -> Span {
        self.timeout
    }

    /// Sends a message; delivered if the answer is 2xx.
    pub(super) fn post(&self, message: &Message) -> Result<(), NotSent> {
        let body = message.cloud_event().to_string();
        let seconds = clock::now().as_ms().div_euclid(1_000);
        let sent = http_client::agent(self.timeout.as_duration(), !self.is_loopback)
            .post(&self.url)
            .header(
                "content-type",
                "application/cloudevents+json; charset=utf-8",
            )
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", seconds.to_string())
            .header(
                "webhook-signature",
                signatures(&self.keys, &message.id, seconds, body.as_bytes()),
            )
            .send(body.as_bytes());
        match sent {
            Ok(response) => judge(&response, clock::now()),
            // The client's error may contain the whole address.
            Err(error) => {
                let why = error.to_string().replace(&self.url, &self.place);
                Err(NotSent::later(why.trim_start_matches("io: ")))
            }
        }
    }
}

/// Interprets the response status; the body is not read.
fn judge<B>(response: &Response<B>, now: Time) -> Result<(), NotSent> {
    let status = response.status();
    let why = format!("it answered {status}");
    match status {
        _ if status.is_success() => Ok(()),
        StatusCode::GONE => Err(NotSent::Gone { why }),
        _ if status.is_redirection() => Err(NotSent::Refused {
            why: format!("{why}, and redirects are not followed"),
        }),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            Err(NotSent::Later {
                why,
                after: retry_after(response, now),
            })
        }
        _ if status.is_client_error() => Err(NotSent::Refused { why }),
        _ => Err(NotSent::Later {
            why,
            after: retry_after(response, now),
        }),
    }
}

/// The `Retry-After` header, in seconds or as a date.
fn retry_after<B>(response: &Response<B>, now: Time) -> Option<Span> {
    let text = response.headers().get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Span::from_secs(u64::from(seconds)));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Time::from(date.timestamp()).since(now))
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(url: &str, plain: bool) -> Result<String, BadWebhook> {
        let keys = Vec::new();
        Webhook::new(url, keys, Span::from_secs(1), plain).map(|webhook| webhook.place)
    }

    #[test]
    fn only_an_encrypted_or_a_local_address_is_taken() {
        let ok = |place: &str| Ok(place.to_owned());
        assert_eq!(
            webhook("https://example.org/hook?key=x", false),
            ok("https://example.org")
        );
        assert_eq!(
            webhook("http://127.0.0.1:80/x", false),
            ok("http://127.0.0.1:80")
        );
        assert_eq!(webhook("http://localhost/x", false), ok("http://localhost"));
        assert_eq!(webhook("http://[::1]:8/", false), ok("http://[::1]:8"));
        let plain = BadWebhook::Plain {
            host: "example.org".to_owned(),
        };
        assert_eq!(webhook("http://example.org/x", false), Err(plain));
        assert_eq!(
            webhook("http://example.org/x", true),
            ok("http://example.org")
        );
        for bad in ["ftp://example.org", "example.org", "", "https://", "/hook"] {
            assert_eq!(webhook(bad, true), Err(BadWebhook::NotAUrl), "{bad}");
        }
    }

    #[test]
    fn what_is_secret_in_an_address_is_never_shown() {
        let hook = Webhook::new(
            "https://me:pw@example.org/t0ken",
            Vec::new(),
            Span::ZERO,
            false,
        );
        assert_eq!(
            format!("{:?}", hook.unwrap()),
            r#"Webhook("https://example.org")"#
        );
    }

    fn answered(status: u16, after: Option<&str>) -> Result<(), NotSent> {
        let mut response = Response::builder().status(status);
        if let Some(after) = after {
            response = response.header("retry-after", after);
        }
        judge(&response.body(()).unwrap(), Time::from_ms(0))
    }

    #[test]
    fn what_an_answer_means() {
        let later = |after: Option<u64>| move |answer: &Result<(), NotSent>| matches!(answer, Err(NotSent::Later { after: got, .. }) if *got == after.map(Span::from_secs));
        assert!((200..300).all(|status| answered(status, None).is_ok()));
        assert!(matches!(answered(410, None), Err(NotSent::Gone { .. })));
        for status in [301, 302, 307, 400, 401, 404, 422] {
            assert!(
                matches!(answered(status, None), Err(NotSent::Refused { .. })),
                "{status}"
            );
        }
        for status in [408, 429, 500, 502, 503] {
            assert!(later(None)(&answered(status, None)), "{status}");
        }
        assert!(later(Some(120))(&answered(503, Some("120"))));
        assert!(later(Some(60))(&answered(
            429,
            Some("Thu, 01 Jan 1970 00:01:00 GMT")
        )));
        assert!(later(None)(&answered(429, Some("soon"))));
    }
}

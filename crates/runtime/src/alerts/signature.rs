//! The signature of Standard Webhooks: HMAC-SHA256 over id, time and body.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::secret::SigningKey;

/// The value of `webhook-signature`: one signature per key, so that keys can be rotated.
pub(super) fn signatures(keys: &[SigningKey], id: &str, seconds: i64, body: &[u8]) -> String {
    let one = |key: &SigningKey| format!("v1,{}", signature(key, id, seconds, body));
    keys.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn signature(key: &SigningKey, id: &str, seconds: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key of any length");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    BASE64_STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::secret;
    use super::*;

    /// The example that the reference libraries of Standard Webhooks are tested with.
    #[test]
    fn the_signature_is_the_one_of_the_reference_libraries() {
        let keys = secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signatures(
            &keys,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_keys_are_changed_each_of_them_signs() {
        let keys = secret::parse("an old key of some length\na new key of some length\n").unwrap();
        let signed = signatures(&keys, "msg_1", 0, b"{}");
        assert_eq!(
            signed
                .split(' ')
                .filter(|one| one.starts_with("v1,"))
                .count(),
            2
        );
    }
}

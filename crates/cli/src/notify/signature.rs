//! Signatures as Standard Webhooks defines them: <https://www.standardwebhooks.com>.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The prefix that a secret may have.
const PREFIX: &str = "whsec_";

/// The value of the header `webhook-signature`. The error says what is wrong with the secret, without it.
pub(super) fn signature(secret: &str, id: &str, seconds: u64, body: &[u8]) -> Result<String, String> {
    let text = secret.strip_prefix(PREFIX).unwrap_or(secret).trim_end_matches('=');
    let key = STANDARD_NO_PAD.decode(text).ok().filter(|key| !key.is_empty());
    let key = key.ok_or("the secret is not base64, as `openssl rand -base64 32` prints it")?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_equals_that_of_the_reference_implementations() {
        // From the tests of the reference libraries of Standard Webhooks.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let body = br#"{"test": 2432232314}"#;
        let signed = signature(secret, id, 1_614_265_330, body);
        assert_eq!(signed.as_deref(), Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
        let bare = signature(&secret[PREFIX.len()..], id, 1_614_265_330, body);
        assert_eq!(bare, signed);
    }

    #[test]
    fn an_invalid_secret_is_refused_and_not_shown_in_the_error() {
        for secret in ["", "whsec_", "not base64!"] {
            let why = signature(secret, "id", 1, b"").expect_err(secret);
            assert!(why.contains("openssl rand -base64 32") && !why.contains("not base64!"), "{why}");
        }
    }
}

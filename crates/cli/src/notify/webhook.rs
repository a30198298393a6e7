//! Webhooks: one POST, repeated with back-off while that may help.
//!
//! Promise: every try of one event carries one id. A refused request (4xx except 408 and 429) is not repeated; neither
//! is a request that may have been accepted, where the service cannot detect a repetition. No redirect is followed,
//! because the user configured another address. No try and no pause goes beyond the time limit. Errors name neither the
//! address nor the secret: both may be secret.
//! Start with [`post`].

use std::io;
use std::time::{Duration, Instant};

use berth_api::redact;
use berth_host::clock;
use berth_store::killpoint;
use berth_store::notifications::DeliveryOutcome;
use serde_json::json;
use ureq::http::{Request, StatusCode, header};

use super::{DeliveryResult, EventNotification, signature};
use crate::config::notify::{WebhookConfig, WebhookFormat};

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, unless the service asks for another one.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The variable that shortens [`FIRST_PAUSE`] for tests, in milliseconds. Not in release builds.
const PAUSE_VARIABLE: &str = "BERTH_TEST_WEBHOOK_PAUSE_MS";

/// The part of a try's timeout for resolving the name and connecting, in tenths. Less than the whole, so that a try
/// that never connected can be told from one that may have been accepted.
const CONNECT_TENTHS: u32 = 9;

/// The result of one try.
#[derive(PartialEq, Debug)]
enum WebhookAttempt {
    Done(StatusCode),
    /// Refused for good: a further try would not help.
    Never(String),
    /// Not accepted. A later try may be; with the pause that the service asked for, if it did.
    Later(String, Option<Duration>),
    /// Sent, and maybe accepted.
    Maybe(String),
}

/// Sends a notification to a webhook, and repeats it until it is accepted or refused, or the time is up.
pub(super) fn post(hook: &WebhookConfig, told: &EventNotification, until: Instant) -> DeliveryResult {
    let secret = match hook.secret.as_ref().map(crate::config::notify::SecretSource::read).transpose() {
        Ok(secret) => secret,
        Err(why) => return DeliveryResult { tries: 0, ..DeliveryResult::failed(why) },
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let left = until.saturating_duration_since(Instant::now());
        let (why, asked) = match once(hook, secret.as_deref(), told, hook.timeout.min(left)) {
            WebhookAttempt::Done(status) => {
                return DeliveryResult {
                    outcome: DeliveryOutcome::Sent,
                    detail: status.as_u16().to_string(),
                    tries,
                };
            }
            WebhookAttempt::Never(why) => return DeliveryResult { tries, ..DeliveryResult::failed(why) },
            WebhookAttempt::Later(why, asked) => (why, asked),
            WebhookAttempt::Maybe(why) if ignores_a_second(hook.format) => (why, None),
            WebhookAttempt::Maybe(why) => {
                let what = format!("cannot tell whether it was taken, so it is not sent again: {why}");
                return DeliveryResult { tries, ..DeliveryResult::failed(what) };
            }
        };
        let pause = asked.map_or_else(|| pause_after(tries), |asked| asked.max(pause_after(tries)));
        let gave_up = if u64::from(tries) >= hook.tries {
            Some(String::new())
        } else if Instant::now().checked_add(pause).is_none_or(|then| then >= until) {
            Some(asked.map_or(" and the time is up".to_owned(), |asked| {
                format!(" and the service asks for a pause of {} s", asked.as_secs())
            }))
        } else {
            None
        };
        if let Some(more) = gave_up {
            return DeliveryResult { tries, ..DeliveryResult::failed(format!("gave up: {why}{more}")) };
        }
        std::thread::sleep(pause);
    }
}

/// True if the service ignores a repeated id, so that a second try is harmless.
fn ignores_a_second(format: WebhookFormat) -> bool {
    match format {
        WebhookFormat::Json => true,
        WebhookFormat::Ntfy | WebhookFormat::Telegram => false,
    }
}

fn once(
    hook: &WebhookConfig,
    secret: Option<&str>,
    told: &EventNotification,
    timeout: Duration,
) -> WebhookAttempt {
    if timeout.is_zero() {
        return WebhookAttempt::Never("no time is left".to_owned());
    }
    let request = match request(hook, secret, told) {
        Ok(request) => request,
        Err(why) => return WebhookAttempt::Never(why),
    };
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .timeout_resolve(Some(timeout * CONNECT_TENTHS / 10))
        .timeout_connect(Some(timeout * CONNECT_TENTHS / 10))
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("berth/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    match agent.run(request) {
        // The body is not needed, and may be endless.
        Ok(answer) => judge(answer.status(), answer.headers().get(header::RETRY_AFTER)),
        Err(error) => trouble(&error, secret),
    }
}

fn judge(status: StatusCode, retry_after: Option<&header::HeaderValue>) -> WebhookAttempt {
    let asked = retry_after.and_then(|value| value.to_str().ok()).and_then(pause_asked_for);
    match status.as_u16() {
        200..=299 => WebhookAttempt::Done(status),
        300..=399 => {
            WebhookAttempt::Never(format!("the service answered {status}; redirects are not followed"))
        }
        // A gateway timeout: the proxy does not know if the service accepted the request.
        504 => WebhookAttempt::Maybe(format!("the service answered {status}")),
        408 | 429 | 500..=599 => WebhookAttempt::Later(format!("the service answered {status}"), asked),
        _ => WebhookAttempt::Never(format!("the service answered {status}")),
    }
}

fn trouble(error: &ureq::Error, secret: Option<&str>) -> WebhookAttempt {
    let why = match error {
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            return WebhookAttempt::Later("no connection in time".to_owned(), None);
        }
        ureq::Error::Timeout(_) => {
            return WebhookAttempt::Maybe("the service did not answer in time".to_owned());
        }
        ureq::Error::HostNotFound => {
            return WebhookAttempt::Later("the service's host is unknown".to_owned(), None);
        }
        ureq::Error::ConnectionFailed => return WebhookAttempt::Later("no connection".to_owned(), None),
        // Only connecting can be refused, so nothing was sent.
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            return WebhookAttempt::Later("the connection was refused".to_owned(), None);
        }
        ureq::Error::Io(error) => return WebhookAttempt::Maybe(io_words(error)),
        ureq::Error::Protocol(_) => {
            return WebhookAttempt::Maybe("the service did not answer in HTTP".to_owned());
        }
        // The texts of these errors would repeat the address.
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "the address is not a valid URL".to_owned(),
        other => other.to_string(),
    };
    let why = secret.map_or(why.clone(), |secret| why.replace(secret, "***"));
    WebhookAttempt::Never(redact::redact_text(&why))
}

fn io_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the connection was closed without an answer".to_owned()
        }
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "the service did not answer in time".to_owned()
        }
        _ => redact::redact_text(&error.to_string()),
    }
}

/// The request, as the documentation of the service defines it.
fn request(
    hook: &WebhookConfig,
    secret: Option<&str>,
    told: &EventNotification,
) -> Result<Request<Vec<u8>>, String> {
    let address = || "the address is not a valid URL".to_owned();
    let json = "application/json";
    let built = match hook.format {
        WebhookFormat::Json => {
            let body = told.json();
            let seconds = clock::wall_ms() / 1000;
            let mut request = Request::post(&hook.url)
                .header(header::CONTENT_TYPE, json)
                .header("webhook-id", &told.id)
                .header("webhook-timestamp", seconds);
            if let Some(secret) = secret {
                request = request
                    .header("webhook-signature", signature::signature(secret, &told.id, seconds, &body)?);
            }
            request.body(body)
        }
        // https://docs.ntfy.sh/publish/#publish-as-json: to the root, so that the title may have any character.
        WebhookFormat::Ntfy => {
            let url = hook.url.trim_end_matches('/');
            let (root, topic) = url.rsplit_once('/').ok_or_else(address)?;
            let (priority, tag) =
                if told.what.is_urgent() { (4, "warning") } else { (3, "white_check_mark") };
            let body = json!({
                "topic": topic, "title": told.title, "message": told.lines(), "priority": priority, "tags": [tag],
            });
            let mut request = Request::post(format!("{root}/")).header(header::CONTENT_TYPE, json);
            if let Some(token) = secret {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            request.body(body.to_string().into_bytes())
        }
        // https://core.telegram.org/bots/api#sendmessage: as plain text, so that no text becomes markup.
        WebhookFormat::Telegram => {
            let token = secret.ok_or("Telegram needs the bot's token as `secret`")?;
            let url = format!("{}/bot{token}/sendMessage", hook.url.trim_end_matches('/'));
            let body = json!({
                "chat_id": hook.chat, "text": format!("{}\n{}", told.title, told.lines()),
                "disable_notification": !told.what.is_urgent(), "link_preview_options": { "is_disabled": true },
            });
            Request::post(url).header(header::CONTENT_TYPE, json).body(body.to_string().into_bytes())
        }
    };
    built.map_err(|_| address())
}

/// The pause before the next try: exponential back-off with up to 50 % jitter, so that many senders that failed
/// together do not come back together.
fn pause_after(tries: u32) -> Duration {
    let first = killpoint::patience(PAUSE_VARIABLE, FIRST_PAUSE);
    let pause = first.saturating_mul(1 << (tries - 1).min(10)).min(LONGEST_PAUSE);
    let mut byte = [0];
    // Without random bytes only the jitter is missing.
    let _ = berth_host::random_bytes(&mut byte);
    pause + pause.mul_f64(f64::from(byte[0]) / 512.0)
}

/// `Retry-After`: seconds, or a date.
fn pause_asked_for(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = jiff::fmt::rfc2822::parse(value).ok()?.timestamp().as_millisecond();
    let now = clock::wall_ms().cast_signed();
    Some(Duration::from_millis(then.saturating_sub(now).max(0).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_somewhere() {
        let pauses: Vec<Duration> = [1, 2, 3, 60].into_iter().map(pause_after).collect();
        assert!(pauses[0] >= FIRST_PAUSE && pauses[0] <= FIRST_PAUSE * 3 / 2, "{pauses:?}");
        assert!(pauses[2] >= FIRST_PAUSE * 4 && pauses[3] <= LONGEST_PAUSE * 3 / 2, "{pauses:?}");
    }

    #[test]
    fn a_pause_may_be_asked_for_in_seconds_or_by_a_date() {
        assert_eq!(pause_asked_for("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause_asked_for("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(pause_asked_for("soon"), None);
    }
}
